"""ContextForge: a gateway with a registry, in front of its own wrapper of the stdio server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import shlex
import shutil
import tempfile
import time
from pathlib import Path

from .client import WireError
from .exchange import Post, session_call
from .gateways import Program, START_LIMIT, ask_json, free_port
from .subjects import Echo

ADMIN = "admin@example.com"


def token(secret: str) -> str:
    """Signs what its `create_jwt_token` signs for an administrator."""
    now = int(time.time())
    claims = {
        "username": ADMIN, "sub": ADMIN, "iat": now, "exp": now + 6 * 3600, "jti": secrets.token_hex(16),
        "iss": "mcpgateway", "aud": "mcpgateway-api", "env": "development", "teams": None,
        "user": {"email": ADMIN, "full_name": "bench", "is_admin": True, "auth_provider": "cli"},
    }  # fmt: skip
    parts = [_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    signed = ".".join(parts)
    return f"{signed}.{_base64(hmac.digest(secret.encode(), signed.encode(), hashlib.sha256))}"


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class ContextForge:
    """The gateway with SQLite in a temporary folder, and its wrapper that puts the echo server on HTTP."""

    name = "ContextForge 1.0.7 (SQLite, one worker)"

    def __init__(self, python: Path, echo: Echo) -> None:
        self.echo = echo
        self.folder = Path(tempfile.mkdtemp(prefix="pentad-bench-forge-"))
        secret = secrets.token_urlsafe(48)
        self.headers = {"Authorization": f"Bearer {token(secret)}"}
        self.env = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ} | {
            "HOME": str(self.folder),
            "HOST": "127.0.0.1",
            "DATABASE_URL": f"sqlite:///{self.folder}/gateway.db",
            "CACHE_TYPE": "memory",
            "LOG_LEVEL": "ERROR",
            "JWT_SECRET_KEY": secret,
            "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(48),
            "PLATFORM_ADMIN_EMAIL": ADMIN,
            "PLATFORM_ADMIN_PASSWORD": secrets.token_urlsafe(24) + "-Aa1!",
            # The server to call is on this machine.
            "SSRF_ALLOW_LOCALHOST": "true",
            "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
            # Its limits of requests a minute would be measured in place of its speed.
            "RATE_LIMITING_ENABLED": "false",
            "TOOL_RATE_LIMIT": "1000000",
        }
        self.programs: list[Program] = []
        try:
            wrapped = self._start(
                python, "its translate", ["-m", "mcpgateway.translate", "--stdio", shlex.join(echo.command), "--expose-streamable-http"]
            )
            self.port = self._start(python, "ContextForge", [str(python.parent / "mcpgateway")])
            self.tool = self._register(wrapped)
        except BaseException:
            self.close()
            raise

    def _start(self, python: Path, name: str, arguments: list[str]) -> int:
        port = free_port()
        argv = [str(python), *arguments, "--host", "127.0.0.1", "--port", str(port)]
        program = Program(name, argv, port, self.env, self.folder)
        self.programs.append(program)
        program.wait_until_listening()
        return port

    def _register(self, wrapped: int) -> str:
        """Makes the wrapped server known and returns the name that its echo tool has here."""
        server = {"name": "echo", "url": f"http://127.0.0.1:{wrapped}/mcp", "transport": "STREAMABLEHTTP"}
        ask_json(self.port, "POST", "/gateways", server, self.headers)
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            for tool in ask_json(self.port, "GET", "/tools", None, self.headers):
                if tool["originalName"] == self.echo.tool:
                    return tool["name"]
            time.sleep(0.2)
        raise WireError(f"ContextForge does not list the tool {self.echo.tool}")

    def connect(self) -> Post:
        return session_call(self.port, "/mcp/", self.headers, self.tool, self.echo.arguments, self.echo.expected)

    def close(self) -> None:
        for program in reversed(self.programs):
            program.close()
        shutil.rmtree(self.folder, ignore_errors=True)
