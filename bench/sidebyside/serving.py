"""Rows about HTTP: how many calls a second, with one and with many connections."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from .client import WireError
from .contextforge import ContextForge
from .exchange import Connection, Post, closing_all, drive, opened
from .gateways import Gateway, McpHub, McpProxy
from .launch import percentile
from .pentad_http import PentadUp, quick_call
from .report import Measured, Row
from .subjects import Echo, Peers, PentadHome

CONNECTIONS = (1, 16)
WARM_SECONDS = 0.5

# Answers whatever comes with the same bytes: what is left is the cost of our own client.
TRIVIAL = """
import selectors, socket
body = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}}'
answer = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
waiting = selectors.DefaultSelector()
waiting.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in waiting.select():
        if key.fileobj is listener:
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting.register(accepted, selectors.EVENT_READ)
        elif key.fileobj.recv(65536):
            key.fileobj.sendall(answer)
        else:
            waiting.unregister(key.fileobj)
            key.fileobj.close()
"""


class Trivial:
    """A server in a process of its own that understands nothing and answers at once."""

    name = "the driver's own ceiling (a server that answers without reading)"

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TRIVIAL], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self.port = int(self.process.stdout.readline())

    def connect(self) -> Post:
        connection = Post(self.port, "/mcp", {}, "hello")
        connection.prepare({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}})
        return connection

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def gateways(peers: Peers, echo: Echo) -> dict[str, Callable[[], Gateway]]:
    """Returns how to start each peer that is installed."""
    found: dict[str, Callable[[], Gateway]] = {}
    if peers.mcp_proxy:
        found[McpProxy.name] = lambda: McpProxy(peers.mcp_proxy, echo)
    if peers.mcp_hub:
        found[McpHub.name] = lambda: McpHub(peers.mcp_hub, echo)
    if peers.contextforge:
        found[ContextForge.name] = lambda: ContextForge(peers.contextforge, echo)
    return found


def rate(connect: Callable[[], Connection], count: int, seconds: float) -> tuple[str, dict[str, Any]]:
    connections = opened(connect, count)
    try:
        drive(connections, min(seconds, WARM_SECONDS))
        numbers = drive(connections, seconds)
    finally:
        closing_all(connections)
    taken = numbers.pop("taken_ms")
    numbers |= {"p50_ms": percentile(taken, 0.5), "p99_ms": percentile(taken, 0.99), "calls": len(taken)}
    return f"{numbers['per_second']:,.0f}/s ({numbers['p50_ms']:.2f} ms p50, {numbers['p99_ms']:.2f} p99)", numbers


def measure(rows: dict[int, Row], subject: str, label: str, connect: Callable[[], Connection], seconds: float) -> None:
    """Measures one subject with every number of connections; a failure costs this cell alone."""
    for count, row in rows.items():
        try:
            text, numbers = rate(connect, count, seconds)
        except (OSError, WireError) as error:
            row.failed.append(f"{label or subject}: {error}")
            continue
        row.cells.append(Measured(subject, f"{label}: {text}" if label else text, numbers | {"what": label or subject}))


def calls_per_second(pentad: str | None, peers: Peers, echo: Echo, seconds: float) -> list[Row]:
    rows = {
        count: Row(
            f"http-{count}",
            f"calls of the same tool a second over HTTP, {count} kept-alive connection{'s' if count > 1 else ''} ({echo.label})",
            "–",
        )
        for count in CONNECTIONS
    }
    if pentad:
        pentad_rates(pentad, rows, echo, seconds)
    for name, start in ({Trivial.name: Trivial} | gateways(peers, echo)).items():
        print(f"  {name} …", file=sys.stderr)
        try:
            gateway = start()
        except (OSError, RuntimeError) as error:
            for row in rows.values():
                row.failed.append(f"{name}: {error}")
            continue
        try:
            measure(rows, name, "", gateway.connect, seconds)
        finally:
            gateway.close()
    return list(rows.values())


def pentad_rates(pentad: str, rows: dict[int, Row], echo: Echo, seconds: float) -> None:
    with PentadHome(pentad) as home:
        home.configure({"quick": echo.command}, {"quick": [echo.tool]})
        home.allow(f"call:quick/{echo.tool}")
        up = PentadUp(home)
        try:
            call, expected = quick_call(echo), echo.expected
            own = {"address": "~/self"}
            subjects: dict[str, Callable[[], Connection]] = {
                "`/mcp`, sessions (2025-11-25)": lambda: up.in_session("call", call, expected),
                "`/mcp`, stateless (2026-07-28)": lambda: up.stateless("call", call, expected),
                "`/api/v1/invoke`": lambda: up.invoke("call", call, expected),
                "`/api/v1/invoke`, `read ~/self`": lambda: up.invoke("read", own, "caller: client:bench"),
            }
            for label, connect in subjects.items():
                measure(rows, "pentad", label, connect, seconds)
        finally:
            up.close()
