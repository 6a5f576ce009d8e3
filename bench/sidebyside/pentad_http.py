"""Pentad over HTTP: `pentad up` on any port, with the token that it gives its client."""

from __future__ import annotations

import json
import select
import subprocess
from typing import Any

from .client import WireError
from .exchange import Post, modern_call, session_call
from .subjects import Echo, PentadHome

CLIENT = "bench"
START_LIMIT = 60


class PentadUp:
    """The keeper of a home in the foreground."""

    def __init__(self, home: PentadHome) -> None:
        self.process = subprocess.Popen(
            [home.binary, "up", "--port", "0", "--json", "--client", CLIENT], env=home.env, cwd=home.workspace,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            ready, _, _ = select.select([self.process.stdout], [], [], START_LIMIT)
            said = self.process.stdout.readline() if ready else b""
            if not said:
                raise WireError(f"`pentad up` did not say where it listens (code {self.process.poll()})")
            told = json.loads(said)
            self.port = int(told["url"].rsplit(":", 1)[1])
            self.headers = {"Authorization": f"Bearer {told['tokens'][CLIENT]}"}
        except BaseException:
            self.close()
            raise

    def in_session(self, tool: str, arguments: dict[str, Any], expected: str) -> Post:
        return session_call(self.port, "/mcp", self.headers, tool, arguments, expected)

    def stateless(self, tool: str, arguments: dict[str, Any], expected: str) -> Post:
        return modern_call(self.port, "/mcp", self.headers, tool, arguments, expected)

    def invoke(self, verb: str, arguments: dict[str, Any], expected: str) -> Post:
        connection = Post(self.port, "/api/v1/invoke", self.headers, expected)
        message = {"verb": verb, "arguments": arguments}
        connection.say(message)
        connection.prepare(message)
        connection.ask()
        return connection

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def quick_call(echo: Echo) -> dict[str, Any]:
    """The arguments of the verb `call` for the echo tool of the server that is configured as `quick`."""
    return {"tool": f"quick/{echo.tool}", "input": echo.arguments}
