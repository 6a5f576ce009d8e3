#!/usr/bin/env python3
"""A real MCP client, from the Python SDK, that prints what it saw of a server as one JSON object.

    python_client.py [options] [--calls JSON | --calls -] -- COMMAND ARG…
    python_client.py [options] [--calls JSON | --calls -] --url URL [--header 'NAME: VALUE']

JSON is a list such as [{"name": "echo", "arguments": {"message": "hi"}}]; `-` reads it from stdin.
The report has the same shape as that of ts_client.mjs; interop/README.md describes it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import os
import select
import sys
import tempfile
import threading
import time
from base64 import b64decode
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

STDERR_TAIL = 4_000


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def since(start: float) -> float:
    return round((time.monotonic() - start) * 1000, 3)


class ServerProcess:
    """The server's process as seen from outside: its id, and when and how it ended."""

    def __init__(self) -> None:
        self.process: Any = None
        self.ended_at: float | None = None
        self._watcher: threading.Thread | None = None

    def record_next_start(self) -> None:
        """The SDK starts the process through `anyio.open_process` and keeps it to itself."""
        original = anyio.open_process

        async def open_process(*args: Any, **kwargs: Any) -> Any:
            self.process = await original(*args, **kwargs)
            self._watch(self.process.pid)
            return self.process

        anyio.open_process = open_process

    def _watch(self, pid: int) -> None:
        """Notes the moment of exit without reaping: a pidfd becomes readable then."""
        if not hasattr(os, "pidfd_open"):
            return
        descriptor = os.pidfd_open(pid)

        def wait() -> None:
            select.select([descriptor], [], [])
            self.ended_at = time.monotonic()
            os.close(descriptor)

        self._watcher = threading.Thread(target=wait, daemon=True)
        self._watcher.start()

    def ending(self, closing_at: float) -> dict[str, Any]:
        if self._watcher is not None:
            self._watcher.join(timeout=5)
        code = None if self.process is None else self.process.returncode
        ended = self.ended_at
        return {
            "ms": None if ended is None else round(max(0.0, ended - closing_at) * 1000, 3),
            "code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
        }


def describe_content(item: Any) -> dict[str, Any]:
    """Text stands in full; bytes are named by size and hash, so that the report stays readable."""
    value = plain(item)
    if value.get("type") in ("image", "audio"):
        data = b64decode(value.pop("data"))
        value |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    blob = value.get("resource", {}).pop("blob", None) if isinstance(value.get("resource"), dict) else None
    if blob is not None:
        data = b64decode(blob)
        value["resource"] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return value


class Session:
    """One connection and everything that was seen on it."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.notifications: dict[str, int] = {}
        self.elicitations: list[dict[str, Any]] = []

    async def on_message(self, message: Any) -> None:
        method = getattr(message, "method", None) or getattr(getattr(message, "root", None), "method", None)
        if method is not None:
            self.notifications[method] = self.notifications.get(method, 0) + 1

    async def on_elicitation(self, _context: Any, params: Any) -> types.ElicitResult:
        self.elicitations.append(plain(params))
        content = json.loads(self.asked.elicit_content) if self.asked.elicit == "accept" else None
        return types.ElicitResult(action=self.asked.elicit, content=content)

    async def list_tools(self, client: Client) -> dict[str, Any]:
        start, tools, pages, cursor = time.monotonic(), [], 0, None
        while True:
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            tools += [plain(tool) for tool in page.tools]
            pages, cursor = pages + 1, page.next_cursor
            if cursor is None or pages == 1_000:
                break
        return {
            "names": [tool["name"] for tool in tools],
            "bytes": len(compact(tools)),
            "pages": pages,
            "ms": since(start),
            "tools": tools if self.asked.schemas else None,
        }

    async def call(self, client: Client, call: dict[str, Any], cancel_after: float | None) -> dict[str, Any]:
        progress: list[dict[str, Any]] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            progress.append({"progress": done, "total": total, "message": message})

        seen: dict[str, Any] = {"name": call["name"]}
        start = time.monotonic()
        with anyio.move_on_after(cancel_after) as scope:
            try:
                result = await client.call_tool(
                    call["name"], call.get("arguments") or {}, progress_callback=on_progress
                )
                seen |= {
                    "outcome": "result",
                    "isError": bool(result.is_error),
                    "content": [describe_content(item) for item in result.content],
                    "structured": result.structured_content,
                }
            except MCPError as error:
                seen |= {"outcome": "error", "error": plain(error.error)}
            except RuntimeError as error:  # the SDK refuses a result that breaks its own output schema
                seen |= {"outcome": "invalid", "error": {"message": str(error)}}
        if scope.cancelled_caught:
            seen["outcome"] = "cancelled"
        return seen | {"ms": since(start), "progress": progress}

    def transport(self, errors: Any) -> Any:
        asked = self.asked
        if asked.url is not None:
            return http_transport(asked.url, asked.header)
        return stdio_client(
            StdioServerParameters(command=asked.command[0], args=asked.command[1:], env=asked.env, cwd=asked.cwd),
            errlog=errors,
        )

    async def run(self) -> dict[str, Any]:
        asked = self.asked
        server = ServerProcess()
        if asked.url is None:
            server.record_next_start()
        report: dict[str, Any] = {"sdk": {"name": "mcp (PyPI)", "version": importlib.metadata.version("mcp")}}
        with tempfile.TemporaryFile("w+") as errors:
            start = time.monotonic()
            client = Client(
                self.transport(errors),
                mode=asked.mode,
                message_handler=self.on_message,
                elicitation_callback=self.on_elicitation if asked.elicit else None,
                client_info=types.Implementation(name=asked.client_name, version="1.0.0"),
                read_timeout_seconds=asked.timeout,
            )
            async with client:
                report |= {
                    "protocol": client.protocol_version,
                    "stateless": client.session.discover_result is not None and client.session.initialize_result is None,
                    "server": None if client.server_info is None else plain(client.server_info),
                    "capabilities": plain(client.server_capabilities),
                    "instructions": client.instructions,
                    "connectMs": since(start),
                    "tools": await self.list_tools(client),
                }
                report["calls"] = await self.run_calls(client)
                closing_at = time.monotonic()
            report["exit"] = server.ending(closing_at)
            errors.seek(0)
            report["stderr"] = errors.read()[-STDERR_TAIL:]
        report["notifications"] = self.notifications
        report["elicitations"] = self.elicitations
        return report

    async def run_calls(self, client: Client) -> list[dict[str, Any]]:
        seen = []
        for round_ in range(self.asked.repeat):
            for position, call in enumerate(self.asked.calls):
                last = position == len(self.asked.calls) - 1
                cancel_after = call.get("cancelAfter", self.asked.cancel_after if last else None)
                seen.append({"round": round_} | await self.call(client, call, cancel_after))
        return seen


@contextlib.asynccontextmanager
async def http_transport(url: str, headers: dict[str, str]) -> Any:
    async with create_mcp_http_client(headers=headers) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


def http_headers(lines: list[str]) -> dict[str, str]:
    chosen = {}
    for line in lines:
        name, given, value = line.partition(":")
        if not given:
            sys.exit(f"--header {line}: write 'NAME: VALUE'.")
        chosen[name.strip()] = value.strip()
    return chosen


def environment(names: list[str]) -> dict[str, str]:
    """Returns the variables to add to the few that the SDK passes on by itself."""
    chosen = {}
    for name in names:
        key, given, value = name.partition("=")
        if not given and key not in os.environ:
            sys.exit(f"--env {key}: not set here; write --env {key}=VALUE.")
        chosen[key] = value if given else os.environ[key]
    return chosen


def read_calls(text: str | None) -> list[dict[str, Any]]:
    if text is None:
        return []
    calls = json.loads(sys.stdin.read() if text == "-" else text)
    if not isinstance(calls, list) or not all(isinstance(call, dict) and "name" in call for call in calls):
        sys.exit('--calls: expected a JSON list of {"name": …, "arguments": {…}}.')
    return calls


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", help="a JSON list of calls, or - to read it from stdin")
    parser.add_argument("--mode", default="legacy", help="legacy (initialize), auto, or a revision such as 2026-07-28")
    parser.add_argument("--repeat", type=int, default=1, help="how often to run the list of calls")
    parser.add_argument("--cancel-after", type=float, metavar="SECONDS", help="cancel the last call after this long")
    parser.add_argument("--elicit", choices=["accept", "decline", "cancel"], help="offer elicitation, answer like this")
    parser.add_argument("--elicit-content", default="{}", metavar="JSON", help="the content of an accepted elicitation")
    parser.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="pass a variable on")
    parser.add_argument("--cwd", help="the server's working directory")
    parser.add_argument("--client-name", default="pentad-interop", help="the name that the client gives itself")
    parser.add_argument("--schemas", action="store_true", help="put the whole tools into the report")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="limit of each request")
    parser.add_argument("--limit", type=float, default=150, metavar="SECONDS", help="limit of the whole run")
    parser.add_argument("--url", help="a server over streamable HTTP, instead of a command")
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent with each request")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the server, after --")
    asked = parser.parse_args()
    if (asked.url is None) == (not asked.command):
        parser.error("name one server: a command after --, or --url")
    asked.header = http_headers(asked.header)
    asked.calls, asked.env = read_calls(asked.calls), environment(asked.env)
    return asked


def failure(error: BaseException) -> dict[str, Any]:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return {"failed": f"{type(error).__name__}: {error}"}


def main() -> int:
    asked = arguments()

    async def limited() -> dict[str, Any]:
        with anyio.fail_after(asked.limit):
            return await Session(asked).run()

    try:
        report = anyio.run(limited)
    except (Exception, BaseExceptionGroup) as error:
        report = failure(error)
    print(json.dumps(report, ensure_ascii=False))
    return 1 if "failed" in report else 0


if __name__ == "__main__":
    sys.exit(main())
