"""An MCP client that is nothing but lines over pipes, so that the driver does not weigh in the result."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from typing import Any

PROTOCOL = "2025-11-25"
INITIALIZE = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class WireError(RuntimeError):
    """The other side said something else than a result."""


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


class StdioClient:
    """One server process and its pipes."""

    def __init__(self, argv: list[str], env: dict[str, str] | None = None, limit: float = 60) -> None:
        self.started = time.perf_counter()
        self.limit = limit
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, bufsize=0
        )
        self._in = self.process.stdin.fileno()
        self._out = self.process.stdout.fileno()
        self._buffer = b""
        self._next_id = 0

    def __enter__(self) -> StdioClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self) -> bytes:
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                return line
            ready, _, _ = select.select([self._out], [], [], self.limit)
            if not ready:
                raise WireError(f"no answer within {self.limit} s from {self.process.args}")
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise WireError(f"{self.process.args} closed its output (code {self.process.poll()})")
            self._buffer += chunk

    def request_raw(self, method: str, params: dict[str, Any]) -> bytes:
        """Sends a request and returns the line of its answer; passes over notifications and requests."""
        self._next_id += 1
        wanted = self._next_id
        os.write(self._in, encode({"jsonrpc": "2.0", "id": wanted, "method": method, "params": params}))
        while True:
            line = self._line()
            if b'"method"' in line[:200] and "method" in json.loads(line):
                continue
            return line

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = json.loads(self.request_raw(method, params))
        if "result" not in answer:
            raise WireError(f"{method}: {answer.get('error')}")
        return answer["result"]

    def notify(self, method: str) -> None:
        os.write(self._in, encode({"jsonrpc": "2.0", "method": method}))

    def open(self) -> float:
        """Shakes hands; returns the milliseconds since the process was started."""
        self.request("initialize", INITIALIZE)
        taken = (time.perf_counter() - self.started) * 1000
        self.notify("notifications/initialized")
        return taken

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
