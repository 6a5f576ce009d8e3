"""The peers that serve a stdio server over HTTP, each on a loopback port, gone with all that they started."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

from .client import WireError
from .exchange import Connection, EventCall, Post, session_call
from .launch import descendants
from .subjects import Echo

START_LIMIT = 180  # seconds: ContextForge makes its database first


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask_json(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """One request to a peer's own interface; for setting up, never for measuring."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"} | (headers or {}))
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.status >= 400:
        raise WireError(f"{method} {path}: HTTP {response.status}: {text[:300]!r}")
    return json.loads(text)


class Program:
    """A program of a peer with what it started, and where it listens."""

    def __init__(self, name: str, argv: list[str], port: int, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.name, self.port = name, port
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, env=env, cwd=cwd,
            start_new_session=True,
        )  # fmt: skip

    def wait_until_listening(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start: {self.last_words()}")
            time.sleep(0.05)

    def last_words(self) -> str:
        self.output.seek(0)
        return " ".join(self.output.read()[-300:].decode(errors="replace").split())

    def close(self) -> None:
        tree = descendants(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in tree:  # a server that outlives its proxy would be counted against the next subject
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.output.close()


class Gateway(Protocol):
    """A peer that calls the echo tool for us."""

    name: str

    def connect(self) -> Connection: ...

    def close(self) -> None: ...


class McpProxy:
    """mcp-proxy: one stdio server on streamable HTTP."""

    name = "mcp-proxy 0.13.0"

    def __init__(self, program: str, echo: Echo) -> None:
        self.echo = echo
        port = free_port()
        argv = [program, "--port", str(port), "--pass-environment", "--", *echo.command]
        self.program = Program(self.name, argv, port)
        try:
            self.program.wait_until_listening()
        except BaseException:
            self.close()
            raise

    def connect(self) -> Post:
        return session_call(self.program.port, "/mcp", {}, self.echo.tool, self.echo.arguments, self.echo.expected)

    def close(self) -> None:
        self.program.close()


class McpHub:
    """mcp-hub: many servers behind one address, which speaks the older HTTP transport (a stream and posts)."""

    name = "mcp-hub 4.2.1 (HTTP+SSE, it has no streamable HTTP)"

    def __init__(self, command: list[str], echo: Echo) -> None:
        self.echo = echo
        self.folder = Path(tempfile.mkdtemp(prefix="pentad-bench-hub-"))
        config = self.folder / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"echo": {"command": echo.command[0], "args": echo.command[1:]}}}))
        port = free_port()
        env = dict(os.environ) | {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder)}
        self.program = Program(self.name, [*command, "--port", str(port), "--config", str(config)], port, env)
        try:
            self.program.wait_until_listening()
            self._wait_until_connected()
        except BaseException:
            self.close()
            raise

    def _wait_until_connected(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while True:
            servers = ask_json(self.program.port, "GET", "/api/health").get("servers", [])
            if servers and servers[0].get("status") == "connected":
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"mcp-hub did not connect its server: {self.program.last_words()}")
            time.sleep(0.05)

    def connect(self) -> EventCall:
        tool = f"echo__{self.echo.tool}"
        return EventCall(self.program.port, "/mcp", tool, self.echo.arguments, self.echo.expected)

    def close(self) -> None:
        self.program.close()
        shutil.rmtree(self.folder, ignore_errors=True)
