"""Rows about the keeper: what starting costs with one, without one and in one process, and what each process weighs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .calling import checked
from .client import StdioClient
from .launch import command_line, descendants, percentile, rss_mb
from .report import Measured, Row
from .starting import SERVERS, STARTS
from .subjects import Echo, Peers, PentadHome

STARTED = 5
OWN_TEXT = "caller: client:bench"


def first_call(argv: list[str], env: dict[str, str] | None, name: str, arguments: dict[str, str], expected: str) -> dict[str, float]:
    """Starts a server, lists its tools and makes one call; milliseconds from the spawn."""
    with StdioClient(argv, env) as client:
        client.open()
        client.request_raw("tools/list", {})
        listed = (time.perf_counter() - client.started) * 1000
        answer = client.request("tools/call", {"name": name, "arguments": arguments})
        called = (time.perf_counter() - client.started) * 1000
    checked(answer, name, expected)
    return {"tools_list_ms": listed, "first_call_ms": called}


def repeated(once: Callable[[], dict[str, float]], times: int) -> dict[str, float]:
    runs = [once() for _ in range(times + 1)][1:]
    numbers: dict[str, float] = {"runs": times}
    for name in ("tools_list_ms", "first_call_ms"):
        numbers |= {f"{name}_p50": percentile([run[name] for run in runs], 0.5), f"{name}_max": max(run[name] for run in runs)}
    return numbers


def starting_with(pentad: str, rows: tuple[Row, Row]) -> None:
    """Measures the three ways to work: the keeper has to start, is there, or is not wanted."""
    with PentadHome(pentad) as home:
        home.configure({f"s{number:02}": ["/bin/false", str(number)] for number in range(SERVERS)})

        def once(*options: str) -> dict[str, float]:
            return first_call(home.mcp(*options), home.env, "read", {"address": "~/self"}, OWN_TEXT)

        def without_keeper() -> dict[str, float]:
            home.stop()
            return once()

        ways = {
            "no keeper running": without_keeper,
            "keeper running": once,
            "`--in-process`": lambda: once("--in-process"),
        }
        for label, way in ways.items():
            if label == "`--in-process`":
                home.stop()  # a home has one keeper, and this one is to be the process itself
            add(rows, "pentad", f"{label}: ", repeated(way, STARTS))


def add(rows: tuple[Row, Row], subject: str, label: str, numbers: dict[str, float]) -> None:
    for row, name in zip(rows, ("tools_list_ms", "first_call_ms"), strict=True):
        text = f"{label}{numbers[f'{name}_p50']:.0f} ms (slowest {numbers[f'{name}_max']:.0f})"
        row.cells.append(Measured(subject, text, numbers | {"what": label.strip(": ")}))


def first_answers(pentad: str | None, peers: Peers) -> list[Row]:
    rows = (
        Row("keeper-first-answer", f"spawn of `pentad mcp` → tools/list answered, {SERVERS} servers configured; peers with one", "–"),
        Row("keeper-first-call", "the same start → first call answered (Pentad `read ~/self`; peers their echo tool)", "–"),
    )
    if pentad:
        starting_with(pentad, rows)
    if peers.everything:
        numbers = repeated(lambda: first_call(peers.everything, None, "echo", {"message": "hello"}, "hello"), 3)
        add(rows, "server-everything, direct", "", numbers)
    return list(rows)


def role(pid: int, keeper: int, face: int, binary: str) -> str:
    """Names a process of a home after its place in the tree."""
    if pid in (keeper, face):
        return "keeper" if pid == keeper else "face"
    try:
        if Path(f"/proc/{pid}/exe").resolve() != Path(binary).resolve():
            return f"server {Path(command_line(pid).split(' ')[0]).name}"
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    except (OSError, ValueError):
        return "gone"
    return "spawner" if parent == keeper else "warden"


def memory(pentad: str | None, echo: Echo) -> Row:
    row = Row(
        "keeper-memory", f"resident memory with {SERVERS} servers configured and {STARTED} started ({echo.label})",
        "face ≤ 15 MB, keeper ≤ 40 MB",
    )  # fmt: skip
    if not pentad:
        return row
    with PentadHome(pentad) as home:
        servers = {f"e{number}": echo.command for number in range(STARTED)}
        idle = {f"s{number:02}": ["/bin/false", str(number)] for number in range(SERVERS - STARTED)}
        home.configure(servers | idle, {name: [echo.tool] for name in servers})
        home.allow(*(f"call:{name}/{echo.tool}" for name in servers))
        with StdioClient(home.mcp(), home.env) as client:
            client.open()
            for name in servers:
                params = {"name": "call", "arguments": {"tool": f"{name}/{echo.tool}", "input": echo.arguments}}
                client.request("tools/call", params)  # the first call may show the contract only
                checked(client.request("tools/call", params), name, echo.expected)
            face, keeper = client.process.pid, home.keeper()
            if keeper is None:
                raise RuntimeError("no keeper holds the home")
            weights: dict[str, list[float]] = {}
            for pid in sorted({*descendants(face), *descendants(keeper)}):
                weights.setdefault(role(pid, keeper, face, home.binary), []).append(rss_mb(pid) or 0.0)
    if len(weights.get("warden", [])) < STARTED:
        row.failed.append(f"expected {STARTED} wardens, found {({name: len(each) for name, each in weights.items()})}")
    limits = {"face": 15, "keeper": 40}
    for name in ("keeper", "face", "spawner", "warden"):
        each = weights.get(name, [])
        text = f"{name} " + (", ".join(f"{weight:.1f}" for weight in each) or "none") + " MB"
        limit = limits.get(name)
        row.cells.append(Measured("pentad", text, {"who": name, "mb": each}, max(each, default=0) <= limit if limit else None))
    for name, each in weights.items():
        if name.startswith("server "):
            row.cells.append(Measured(f"`{name.removeprefix('server ')}`, each", f"{max(each):.1f} MB", {"mb": each}))
    return row
