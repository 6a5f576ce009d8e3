"""Connections that repeat one prepared request: bytes out, bytes in, nothing parsed that need not be."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from .client import INITIALIZE, PROTOCOL, WireError, encode

MODERN = "2026-07-28"
LIMIT = 60


def dial(port: int) -> socket.socket:
    connected = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def http_request(method: str, path: str, port: int, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def is_whole(answer: bytes) -> bool:
    """Says whether an HTTP answer has ended; one request is on its way at a time, so nothing follows it."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        return body.startswith(b"0\r\n\r\n") or body.endswith(b"\r\n0\r\n\r\n")
    _, found, rest = fields.partition(b"content-length:")
    return len(body) >= int(rest.split(b"\r\n", 1)[0]) if found else fields.startswith(b"http/1.1 2")


class Closed(WireError):
    """The connection was gone before the answer began, as an idle one may be."""


class Post:
    """One kept-alive connection that posts the same body again and again."""

    def __init__(self, port: int, path: str, headers: dict[str, str], expected: str = "") -> None:
        self.port, self.path = port, path
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        } | headers
        self.expected = expected.encode()
        self.socket = dial(port)
        self.prepared = b""
        self._buffer = b""

    def prepare(self, message: dict[str, Any]) -> None:
        self.prepared = http_request("POST", self.path, self.port, self.headers, encode(message))

    def send(self) -> None:
        self._buffer = b""
        self.socket.sendall(self.prepared)

    def receive(self) -> bool:
        """Takes what has come; says whether the answer is whole."""
        chunk = self.socket.recv(1 << 16)
        if not chunk and not self._buffer:
            raise Closed(f"port {self.port} closed the connection without an answer")
        if not chunk:
            raise WireError(f"port {self.port} closed the connection after {self._buffer[-300:]!r}")
        self._buffer += chunk
        if not is_whole(self._buffer):
            return False
        # A refusal is fast, and must not pass for a call.
        if not self._buffer.startswith(b"HTTP/1.1 2") or self.expected not in self._buffer:
            raise WireError(f"port {self.port}: {self._buffer[-500:]!r}")
        return True

    def freshen(self) -> None:
        """Dials again: a server may have closed a connection that was idle while others had their turn."""
        self.socket.close()
        self.socket = dial(self.port)

    def ask(self) -> bytes:
        """Sends the request and waits for its answer."""
        try:
            self.send()
            first = self.receive()
        except (Closed, ConnectionError):
            self.freshen()
            self.send()
            first = self.receive()
        while not first and not self.receive():
            pass
        return self._buffer

    def say(self, message: dict[str, Any]) -> bytes:
        """Sends something else than the request that is measured."""
        expected, self.expected = self.expected, b""
        self.prepare(message)
        answer = self.ask()
        self.expected = expected
        return answer

    def close(self) -> None:
        self.socket.close()


def call_message(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def field(answer: bytes, name: bytes) -> str | None:
    head = answer.partition(b"\r\n\r\n")[0]
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode()
    return None


def session_call(
    port: int, path: str, headers: dict[str, str], tool: str, arguments: dict[str, Any], expected: str
) -> Post:
    """Opens a session (2025-11-25) and prepares a call in it."""
    connection = Post(port, path, headers, expected)
    answer = connection.say({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    session = field(answer, b"mcp-session-id")
    if session:
        connection.headers["Mcp-Session-Id"] = session
    connection.headers["MCP-Protocol-Version"] = PROTOCOL
    connection.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    connection.say(call_message(tool, arguments))  # the first call may show the contract only
    connection.prepare(call_message(tool, arguments))
    connection.ask()
    return connection


def modern_call(
    port: int, path: str, headers: dict[str, str], tool: str, arguments: dict[str, Any], expected: str
) -> Post:
    """Prepares a call of the revision without sessions (2026-07-28): every request says all of it."""
    told = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    told |= {f"Mcp-Param-{name}": str(arguments[name]) for name in ("tool", "address") if name in arguments}
    connection = Post(port, path, headers | told, expected)
    message = call_message(tool, arguments)
    message["params"]["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": INITIALIZE["clientInfo"],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    connection.say(message)
    connection.prepare(message)
    connection.ask()
    return connection


class EventCall:
    """A call over the older HTTP transport: posted on one connection, answered on a stream of another."""

    def __init__(self, port: int, path: str, tool: str, arguments: dict[str, Any], expected: str) -> None:
        self.port = port
        self.expected = expected.encode()
        self.socket = dial(port)  # the stream
        self.socket.sendall(http_request("GET", path, port, {"Accept": "text/event-stream"}))
        self._buffer = b""
        self.out: Post | None = None
        try:
            self.out = Post(port, self._endpoint(), {})
            self._exchange({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}, b'"serverInfo"')
            self.out.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
            self._exchange(call_message(tool, arguments), self.expected)
            self.out.prepare(call_message(tool, arguments))
        except BaseException:
            self.close()
            raise

    def _endpoint(self) -> str:
        while True:
            self._take()
            for line in self._buffer.splitlines():
                if line.startswith(b"data:") and b"/" in line and self._buffer.endswith(b"\n"):
                    return line.removeprefix(b"data:").strip().decode()

    def _take(self) -> None:
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise WireError(f"port {self.port} closed its stream after {self._buffer[-300:]!r}")
        self._buffer += chunk

    def _exchange(self, message: dict[str, Any], expected: bytes) -> None:
        self.out.prepare(message)
        self._buffer = b""
        self.out.ask()
        while not self._answered():
            self._take()
        if expected not in self._buffer:
            raise WireError(f"port {self.port}: {self._buffer[-500:]!r}")

    def _answered(self) -> bool:
        # Notifications come on the same stream; only an answer has a result or an error beside its id.
        ended = self._buffer.rstrip(b"\r\n").count(b"\n\n") or self._buffer.endswith((b"\n\n", b"\n\n\r\n"))
        return bool(ended) and (b'"result"' in self._buffer or b'"error"' in self._buffer)

    def freshen(self) -> None:
        self.out.freshen()

    def send(self) -> None:
        self._buffer = b""
        self.out.ask()  # the post is accepted at once; its answer says nothing

    def receive(self) -> bool:
        if not self._answered():
            self._take()
        if not self._answered():
            return False
        if self.expected not in self._buffer:
            raise WireError(f"port {self.port}: {self._buffer[-500:]!r}")
        return True

    def ask(self) -> bytes:
        self.send()
        while not self.receive():
            pass
        return self._buffer

    def close(self) -> None:
        self.socket.close()
        if self.out:
            self.out.close()


Connection = Post | EventCall


def drive(connections: Sequence[Connection], seconds: float) -> dict[str, Any]:
    """Keeps one request on its way on each connection; returns how many were answered in a second, and how fast."""
    waiting = selectors.DefaultSelector()
    sent: dict[Connection, float] = {}
    taken: list[float] = []
    for connection in connections:
        connection.freshen()
        waiting.register(connection.socket, selectors.EVENT_READ, connection)
    start = time.perf_counter()
    end = start + seconds
    for connection in connections:
        sent[connection] = time.perf_counter()
        connection.send()
    last = start
    while sent:
        ready = waiting.select(LIMIT)
        if not ready:
            raise WireError(f"{len(sent)} connections got no answer within {LIMIT} s")
        for key, _ in ready:
            connection = key.data
            if not connection.receive():
                continue
            last = time.perf_counter()
            taken.append((last - sent.pop(connection)) * 1000)
            if last < end:
                sent[connection] = last
                connection.send()
    waiting.close()
    return {"per_second": len(taken) / (last - start), "taken_ms": taken, "connections": len(connections)}


def closing_all(things: Sequence[Any]) -> None:
    """Closes all, the newest first; one that fails keeps no other from closing."""
    with contextlib.ExitStack() as stack:
        for thing in things:
            stack.callback(thing.close)


def opened(make: Callable[[], Connection], count: int) -> list[Connection]:
    """Opens so many connections, or none."""
    made: list[Connection] = []
    try:
        for _ in range(count):
            made.append(make())
    except BaseException:
        closing_all(made)
        raise
    return made
