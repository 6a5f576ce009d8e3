"""Who is measured: Pentad with a home of its own, and the peers that are installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .launch import command_line, descendants, processes_with

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"


@dataclass
class Peers:
    """Commands of what is installed; None where it is not."""

    node: str | None
    everything: list[str] | None
    mcp_proxy: str | None
    mcp_hub: list[str] | None
    contextforge: Path | None  # the interpreter that has it
    tokenizer: Path | None  # the folder that node finds gpt-tokenizer from


def find_peers() -> Peers:
    node = shutil.which("node")
    modules = TOOLS / "npm/node_modules"
    everything = modules / "@modelcontextprotocol/server-everything/dist/index.js"
    proxy = TOOLS / "peers/python/bin/mcp-proxy"
    forge = TOOLS / "peers/contextforge/bin/python"
    peer_modules = TOOLS / "peers/npm/node_modules"
    hub, tokenizer = peer_modules / ".bin/mcp-hub", peer_modules / "gpt-tokenizer"
    return Peers(
        node=node,
        everything=[node, str(everything), "stdio"] if node and everything.exists() else None,
        mcp_proxy=str(proxy) if proxy.exists() else None,
        mcp_hub=[node, str(hub)] if node and hub.exists() else None,
        contextforge=forge if forge.exists() else None,
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
        self.close()

    def close(self) -> None:
        tree = self.processes()
        self.stop()
        for pid in tree | self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """Ends the keeper, if there is one, and with it everything that it started."""
        subprocess.run(
            [self.binary, "stop"], env=self.env, cwd=self.workspace, check=False, timeout=30,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def keeper(self) -> int | None:
        """Returns the process that holds this home."""
        try:
            pid = int((self.home / "state/keeper.lock").read_text())
        except (OSError, ValueError):
            return None
        # The number stays in the file when its process has gone, and may be another's by now.
        ours = pid in processes_with("PENTAD_HOME", str(self.home)) or str(self.home) in command_line(pid)
        return pid if ours else None

    def processes(self) -> set[int]:
        """Returns what works in this home: what has it in its environment, its keeper, and everything below these."""
        roots = {*processes_with("PENTAD_HOME", str(self.home)), self.keeper() or 0} - {0}
        return {pid for root in roots for pid in descendants(root)} - {os.getpid()}

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

    def mcp(self, *options: str) -> list[str]:
        return [self.binary, *options, "mcp"]
