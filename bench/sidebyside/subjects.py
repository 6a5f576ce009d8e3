"""Who is measured: Pentad with a home of its own, and the peers that are installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .client import HttpClient
from .launch import processes_with

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"


@dataclass
class Peers:
    """Commands of what is installed; None where it is not."""

    node: str | None
    everything: list[str] | None
    mcp_proxy: str | None
    mcp_hub: list[str] | None
    tokenizer: Path | None  # the folder that node finds gpt-tokenizer from


def find_peers() -> Peers:
    node = shutil.which("node")
    modules = TOOLS / "npm/node_modules"
    everything = modules / "@modelcontextprotocol/server-everything/dist/index.js"
    proxy = TOOLS / "peers/python/bin/mcp-proxy"
    peer_modules = TOOLS / "peers/npm/node_modules"
    hub, tokenizer = peer_modules / ".bin/mcp-hub", peer_modules / "gpt-tokenizer"
    return Peers(
        node=node,
        everything=[node, str(everything), "stdio"] if node and everything.exists() else None,
        mcp_proxy=str(proxy) if proxy.exists() else None,
        mcp_hub=[node, str(hub)] if node and hub.exists() else None,
        tokenizer=TOOLS / "peers/npm" if node and tokenizer.exists() else None,
    )


@dataclass
class Echo:
    """The server and tool that latency is measured with."""

    command: list[str]
    tool: str
    arguments: dict[str, str]
    label: str

    @property
    def expected(self) -> str:
        """Returns what an echo must hold."""
        return next((value for value in self.arguments.values() if isinstance(value, str)), "")


class PentadHome:
    """A home in a temporary folder, with its configuration, gone afterwards with all of its processes."""

    def __init__(self, binary: str) -> None:
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="pentad-bench-"))
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        self.env = {
            key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TERM", "TMPDIR", "XDG_RUNTIME_DIR")
        } | {"HOME": str(self.folder), "PENTAD_HOME": str(self.home)}

    def __enter__(self) -> PentadHome:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(
            [self.binary, "stop"], env=self.env, cwd=self.workspace, check=False, timeout=30,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for pid in processes_with("PENTAD_HOME", str(self.home)):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def configure(self, servers: dict[str, list[str]], read_only: dict[str, list[str]] | None = None) -> None:
        """Writes config.toml with these servers; `read_only` names the tools that a person vouches for."""
        lines = []
        for name, command in servers.items():
            lines += [f"[servers.{name}]", f"command = {json.dumps(command[0])}", f"args = {json.dumps(command[1:])}"]
            for tool in (read_only or {}).get(name, []):
                lines += [f"[servers.{name}.tools.{json.dumps(tool)}]", "read_only = true"]
        (self.home / "config.toml").write_text("\n".join(lines) + "\n")

    def allow(self, *grants: str) -> None:
        """Writes policy.toml, so that nothing waits for a person."""
        (self.home / "policy.toml").write_text(f"allow = {json.dumps(list(grants))}\n")

    def recipe(self, name: str, document: dict) -> None:
        folder = self.home / "recipes"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(document))

    def mcp(self) -> list[str]:
        return [self.binary, "mcp"]


class ProxyInFront:
    """mcp-proxy serving a stdio server over streamable HTTP on a loopback port."""

    def __init__(self, program: str, server: list[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--pass-environment", "--", *server],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise RuntimeError("mcp-proxy did not start") from None
                time.sleep(0.05)

    def connect(self) -> HttpClient:
        client = HttpClient(self.port)
        client.open()
        return client

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
