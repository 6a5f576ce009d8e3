"""Rows about calls: what Pentad adds to a tool call, and what a recipe adds to starting a program."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .client import HttpClient, StdioClient, WireError
from .launch import fsync_ms, percentile, run_once
from .report import Measured, Row
from .subjects import Echo, Peers, PentadHome, ProxyInFront

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


def tool_call(
    client: StdioClient | HttpClient, name: str, arguments: dict[str, Any], expected: str
) -> Callable[[], None]:
    params = {"name": name, "arguments": arguments}
    client.request("tools/call", params)  # the first call may show the contract only
    checked(client.request("tools/call", params), f"{name} {arguments}", expected)
    return lambda: client.request_raw("tools/call", params) and None


def call_latency(pentad: str | None, peers: Peers, echo: Echo, calls: int) -> list[Row]:
    quick = Row(
        "call-read-only", f"`call` of a trusted read-only tool of a warm stdio server, added over direct ({echo.label})",
        "≤ 0.3 ms p50, ≤ 1.5 ms p99",
    )  # fmt: skip
    durable = Row("call-durable", "the same for a tool that nobody vouched for: intent on disk first", "as above plus one fsync")
    open_things: list[Any] = []
    callers: dict[str, Callable[[], None]] = {}
    try:
        direct = StdioClient(echo.command)
        open_things.append(direct)
        direct.open()
        callers["direct"] = tool_call(direct, echo.tool, echo.arguments, echo.expected)
        home = None
        if pentad:
            home = PentadHome(pentad)
            open_things.append(_Closing(home))
            home.configure({"quick": echo.command, "durable": echo.command}, {"quick": [echo.tool]})
            home.allow(f"call:quick/{echo.tool}", f"call:durable/{echo.tool}")
            face = StdioClient(home.mcp(), home.env)
            open_things.append(face)
            face.open()
            for source in ("quick", "durable"):
                arguments = {"tool": f"{source}/{echo.tool}", "input": echo.arguments}
                callers[source] = tool_call(face, "call", arguments, echo.expected)
        if peers.mcp_proxy:
            proxy = ProxyInFront(peers.mcp_proxy, echo.command)
            open_things.append(proxy)
            client = proxy.connect()
            open_things.append(client)
            callers["proxy"] = tool_call(client, echo.tool, echo.arguments, echo.expected)
        taken = interleaved(callers, calls)
        if home:
            report_ours(home, taken, quick, durable)
    finally:
        for thing in reversed(open_things):
            thing.close()
    base = spread(taken["direct"])
    quick.cells.append(Measured("direct client", f"{base['p50_ms']:.2f} ms p50, {base['p99_ms']:.2f} p99", base))
    if "proxy" in taken:
        numbers = added(taken["proxy"], taken["direct"])
        quick.cells.append(Measured("mcp-proxy 0.13.0 (HTTP in front)", added_text(numbers), numbers))
    return [quick, durable]


class _Closing:
    """Lets a home stand in a list of things to close."""

    def __init__(self, home: PentadHome) -> None:
        self.home = home

    def close(self) -> None:
        self.home.__exit__()


def report_ours(home: PentadHome, taken: dict[str, list[float]], quick: Row, durable: Row) -> None:
    numbers = added(taken["quick"], taken["direct"])
    meets = numbers["added_p50_ms"] <= 0.3 and numbers["added_p99_ms"] <= 1.5
    quick.cells.append(Measured("pentad", added_text(numbers), numbers, meets))
    disk = fsync_ms(Path(home.home))
    disk_p50, disk_p99 = percentile(disk, 0.5), percentile(disk, 0.99)
    numbers = added(taken["durable"], taken["direct"]) | {"fsync_p50_ms": disk_p50, "fsync_p99_ms": disk_p99}
    meets = numbers["added_p50_ms"] <= 0.3 + disk_p50 and numbers["added_p99_ms"] <= 1.5 + disk_p99
    text = f"{added_text(numbers)} (one fsync here: {disk_p50:.2f} p50, {disk_p99:.2f} p99)"
    durable.cells.append(Measured("pentad", text, numbers, meets))


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
            home.__exit__()
    plain = spread(taken["plain"])
    if "recipe" in taken:
        numbers = added(taken["recipe"], taken["plain"])
        row.cells.append(Measured("pentad", added_text(numbers), numbers, numbers["added_p50_ms"] <= 3))
    row.cells.append(Measured("posix_spawn and wait", f"{plain['p50_ms']:.2f} ms p50, {plain['p99_ms']:.2f} p99", plain))
    return row
