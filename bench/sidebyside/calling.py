"""Rows about calls: what Pentad adds to a tool call, and what a recipe adds to starting a program."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .client import StdioClient, WireError
from .exchange import Connection, closing_all
from .launch import fsync_ms, percentile, run_once
from .pentad_http import PentadUp, quick_call
from .report import Measured, Row
from .serving import gateways
from .subjects import Echo, Peers, PentadHome

BLOCK = 50
WARM_UP = 100


def checked(result: dict[str, Any], what: str, expected: str) -> None:
    """A refusal, or a contract shown in place of a result, is fast; neither may pass for a call."""
    text = "".join(item.get("text", "") for item in result.get("content", []))
    if result.get("isError") or expected not in text:
        raise WireError(f"{what}: expected {expected!r} in the answer, got {text[:400]!r}")


def interleaved(callers: dict[str, Callable[[], None]], calls: int) -> dict[str, list[float]]:
    """Calls everyone in turn, a block each, so that a slow moment of the machine hits all alike."""
    for call in callers.values():
        for _ in range(WARM_UP):
            call()
    taken: dict[str, list[float]] = {name: [] for name in callers}
    for _ in range(max(1, calls // BLOCK)):
        for name, call in callers.items():
            samples = taken[name]
            call()  # not counted: a server may have closed a connection that was idle during the others' turns
            for _ in range(BLOCK):
                start = time.perf_counter()
                call()
                samples.append((time.perf_counter() - start) * 1000)
    return taken


def spread(samples: list[float]) -> dict[str, float]:
    return {
        "p50_ms": percentile(samples, 0.5),
        "p99_ms": percentile(samples, 0.99),
        "min_ms": min(samples),
        "calls": len(samples),
    }


def added(samples: list[float], direct: list[float]) -> dict[str, float]:
    ours, base = spread(samples), spread(direct)
    return ours | {
        "added_p50_ms": ours["p50_ms"] - base["p50_ms"],
        "added_p99_ms": ours["p99_ms"] - base["p99_ms"],
    }


def added_text(numbers: dict[str, float]) -> str:
    return f"{numbers['added_p50_ms']:+.2f} ms p50, {numbers['added_p99_ms']:+.2f} p99"


def tool_call(client: StdioClient, name: str, arguments: dict[str, Any], expected: str) -> Callable[[], None]:
    params = {"name": name, "arguments": arguments}
    client.request("tools/call", params)  # the first call may show the contract only
    checked(client.request("tools/call", params), f"{name} {arguments}", expected)
    return lambda: client.request_raw("tools/call", params) and None


def asking(connection: Connection) -> Callable[[], None]:
    return lambda: connection.ask() and None


class Latency:
    """Everyone who makes the same call in one run, and the rows that come of it."""

    def __init__(self, echo: Echo) -> None:
        self.echo = echo
        self.quick = Row(
            "call-read-only",
            f"`call` of a trusted read-only tool of a warm stdio server, added over direct ({echo.label}); face and keeper",
            "≤ 0.3 ms p50, ≤ 1.5 ms p99",
        )
        self.alone = Row("call-in-process", "the same with `--in-process`", "≤ 0.3 ms p50, ≤ 1.5 ms p99")
        self.durable = Row(
            "call-durable", "the same for a tool that nobody vouched for: intent on disk first (face and keeper)",
            "as above plus one fsync",
        )  # fmt: skip
        self.http = Row("call-http", "the trusted read-only call over HTTP, added over the direct stdio client", "–")
        self.callers: dict[str, Callable[[], None]] = {}
        self.open_things: list[Any] = []

    def rows(self) -> list[Row]:
        return [self.quick, self.alone, self.durable, self.http]

    def owned(self, thing: Any) -> Any:
        self.open_things.append(thing)
        return thing

    def direct(self) -> None:
        client = self.owned(StdioClient(self.echo.command))
        client.open()
        self.callers["direct"] = tool_call(client, self.echo.tool, self.echo.arguments, self.echo.expected)

    def home(self, pentad: str) -> PentadHome:
        home = self.owned(PentadHome(pentad))
        home.configure({"quick": self.echo.command, "durable": self.echo.command}, {"quick": [self.echo.tool]})
        home.allow(f"call:quick/{self.echo.tool}", f"call:durable/{self.echo.tool}")
        return home

    def face(self, home: PentadHome, *options: str) -> StdioClient:
        face = self.owned(StdioClient(home.mcp(*options), home.env))
        face.open()
        return face

    def through(self, face: StdioClient, source: str) -> Callable[[], None]:
        arguments = {"tool": f"{source}/{self.echo.tool}", "input": self.echo.arguments}
        return tool_call(face, "call", arguments, self.echo.expected)

    def pentad(self, pentad: str) -> PentadHome:
        """A home for each way to work, since a home has one keeper; returns the one that a client gets by default."""
        kept = self.home(pentad)
        face = self.face(kept)
        self.callers["quick"] = self.through(face, "quick")
        self.callers["durable"] = self.through(face, "durable")
        self.callers["alone"] = self.through(self.face(self.home(pentad), "--in-process"), "quick")
        up = self.owned(PentadUp(self.home(pentad)))
        call, expected = quick_call(self.echo), self.echo.expected
        self.callers["session"] = asking(self.owned(up.in_session("call", call, expected)))
        self.callers["stateless"] = asking(self.owned(up.stateless("call", call, expected)))
        return kept

    def peers(self, peers: Peers) -> None:
        for name, start in gateways(peers, self.echo).items():
            try:
                gateway = self.owned(start())
                self.callers[name] = asking(self.owned(gateway.connect()))
            except (OSError, RuntimeError) as error:
                self.http.failed.append(f"{name}: {error}")

    def report_pentad(self, home: PentadHome, taken: dict[str, list[float]]) -> None:
        direct = taken["direct"]
        for row, name in ((self.quick, "quick"), (self.alone, "alone")):
            numbers = added(taken[name], direct)
            meets = numbers["added_p50_ms"] <= 0.3 and numbers["added_p99_ms"] <= 1.5
            row.cells.append(Measured("pentad", added_text(numbers), numbers, meets))
        disk = fsync_ms(Path(home.home))
        disk_p50, disk_p99 = percentile(disk, 0.5), percentile(disk, 0.99)
        numbers = added(taken["durable"], direct) | {"fsync_p50_ms": disk_p50, "fsync_p99_ms": disk_p99}
        meets = numbers["added_p50_ms"] <= 0.3 + disk_p50 and numbers["added_p99_ms"] <= 1.5 + disk_p99
        text = f"{added_text(numbers)} (one fsync here: {disk_p50:.2f} p50, {disk_p99:.2f} p99)"
        self.durable.cells.append(Measured("pentad", text, numbers, meets))
        for name, label in (("session", "sessions (2025-11-25)"), ("stateless", "stateless (2026-07-28)")):
            numbers = added(taken[name], direct)
            self.http.cells.append(Measured("pentad", f"{label}: {added_text(numbers)}", numbers | {"what": label}))

    def report_peers(self, taken: dict[str, list[float]]) -> None:
        base = spread(taken["direct"])
        self.quick.cells.append(Measured("direct client", f"{base['p50_ms']:.2f} ms p50, {base['p99_ms']:.2f} p99", base))
        ours = ("direct", "quick", "durable", "alone", "session", "stateless")
        for name in (name for name in taken if name not in ours):
            numbers = added(taken[name], taken["direct"])
            self.http.cells.append(Measured(name, added_text(numbers), numbers))


def call_latency(pentad: str | None, peers: Peers, echo: Echo, calls: int) -> list[Row]:
    run = Latency(echo)
    try:
        run.direct()
        home = run.pentad(pentad) if pentad else None
        run.peers(peers)
        taken = interleaved(run.callers, calls)
        if home:
            run.report_pentad(home, taken)
    finally:
        closing_all(run.open_things)
    run.report_peers(taken)
    return run.rows()


def launch(pentad: str | None, calls: int) -> Row:
    row = Row("launch", "`/bin/true` as a recipe through `call`, added over fork and exec", "≤ 3 ms with fsync")
    callers: dict[str, Callable[[], None]] = {"plain": lambda: run_once(["/bin/true"]) and None}
    home = PentadHome(pentad) if pentad else None
    face = None
    try:
        if home:
            home.recipe("nothing", {"description": "Does nothing, successfully.", "template": "/bin/true now"})
            home.recipe("spoken", {"description": "Says that it was launched.", "template": "/bin/echo launched"})
            home.allow("call:recipes/nothing", "call:recipes/spoken", "execute")
            face = StdioClient(home.mcp(), home.env)
            face.open()
            # Silence proves nothing, so a recipe that speaks goes first under the same rules.
            tool_call(face, "call", {"tool": "recipes/spoken", "input": {}}, "launched")
            callers["recipe"] = tool_call(face, "call", {"tool": "recipes/nothing", "input": {}}, "")
        taken = interleaved(callers, calls)
    finally:
        if face:
            face.close()
        if home:
            home.close()
    plain = spread(taken["plain"])
    if "recipe" in taken:
        numbers = added(taken["recipe"], taken["plain"])
        row.cells.append(Measured("pentad", added_text(numbers), numbers, numbers["added_p50_ms"] <= 3))
    row.cells.append(Measured("posix_spawn and wait", f"{plain['p50_ms']:.2f} ms p50, {plain['p99_ms']:.2f} p99", plain))
    return row
