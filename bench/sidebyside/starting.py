"""Rows about starting: the binary, the first answer, memory, payload, discovery."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from .client import StdioClient
from .launch import command_line, descendants, peak_memory, percentile, processes_with, rss_mb, run_once
from .report import Measured, Row
from .subjects import Peers, PentadHome

SERVERS = 50
RECIPES = 1_000
STARTS = 10
PAYLOAD_LIMIT = 6_000


def timed(argv: list[str], times: int, env: dict[str, str] | None = None) -> tuple[str, dict[str, float]]:
    run_once(argv, env)  # the page cache is warm from here on, for everyone alike
    runs = [run_once(argv, env) for _ in range(times)]
    bad = next((run.code for run in runs if run.code != 0), 0)
    if bad != 0:
        raise RuntimeError(f"`{' '.join(argv)}` ended with {bad}")
    peak = peak_memory(argv, env)
    numbers = {
        "p50_ms": percentile([run.ms for run in runs], 0.5),
        "min_ms": min(run.ms for run in runs),
        "max_rss_mb": peak.mb,
        "runs": times,
    }
    return f"{numbers['p50_ms']:.1f} ms, {peak}", numbers


def version(pentad: str | None, peers: Peers, times: int) -> Row:
    row = Row("version", "`--version`, whole process (median; peak memory)", "≤ 5 ms")
    if pentad:
        text, numbers = timed([pentad, "--version"], times)
        row.cells.append(Measured("pentad", text, numbers, numbers["p50_ms"] <= 5))
    others = {"/bin/true": ["/bin/true"]}
    if peers.mcp_hub:
        others["mcp-hub 4.2.1"] = [*peers.mcp_hub, "--version"]
    if peers.mcp_proxy:
        others["mcp-proxy 0.13.0"] = [peers.mcp_proxy, "--version"]
    if peers.node:
        others["`node -e 0`"] = [peers.node, "-e", "0"]
    for name, argv in others.items():
        text, numbers = timed(argv, max(3, times // 5) if "/" not in name else times)
        row.cells.append(Measured(name, text, numbers))
    return row


def folder_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def size(pentad: str | None, peers: Peers) -> Row:
    row = Row("size", "binary on disk, default features, stripped", "≤ 25 MB")
    if pentad:
        megabytes = os.stat(pentad).st_size / 1e6
        row.cells.append(Measured("pentad", f"{megabytes:.1f} MB", {"mb": megabytes}, megabytes <= 25))
    if peers.node:
        megabytes = os.stat(os.path.realpath(peers.node)).st_size / 1e6
        row.cells.append(Measured("node itself", f"{megabytes:.0f} MB", {"mb": megabytes}))
    if peers.mcp_proxy:
        megabytes = folder_mb(Path(peers.mcp_proxy).parents[1] / "lib")
        row.cells.append(Measured("mcp-proxy 0.13.0, its packages", f"{megabytes:.0f} MB", {"mb": megabytes}))
    return row


def opened(argv: list[str], env: dict[str, str] | None) -> dict[str, float]:
    """Starts a server, asks for its tools, and weighs the process while it waits for more."""
    with StdioClient(argv, env) as client:
        initialized = client.open()
        line = client.request_raw("tools/list", {})
        first = (time.perf_counter() - client.started) * 1000
        tree = descendants(client.process.pid)
        memory = rss_mb(client.process.pid) or 0.0
        total = sum(rss_mb(pid) or 0.0 for pid in tree)
    tools = json.loads(line)["result"]["tools"]
    return {"initialize_ms": initialized, "tools_list_ms": first, "rss_mb": memory, "tree_mb": total, "tools": len(tools)}


def starts(argv: list[str], env: dict[str, str] | None, times: int) -> tuple[str, dict[str, float]]:
    runs = [opened(argv, env) for _ in range(times + 1)][1:]
    numbers = {
        "p50_ms": percentile([run["tools_list_ms"] for run in runs], 0.5),
        "initialize_p50_ms": percentile([run["initialize_ms"] for run in runs], 0.5),
        "max_ms": max(run["tools_list_ms"] for run in runs),
        "rss_mb": max(run["rss_mb"] for run in runs),
        "tree_mb": max(run["tree_mb"] for run in runs),
        "tools": runs[0]["tools"],
        "runs": times,
    }
    return f"{numbers['p50_ms']:.0f} ms (initialize {numbers['initialize_p50_ms']:.0f})", numbers


def first_answer(pentad: str | None, peers: Peers) -> list[Row]:
    answer = Row(
        "first-answer",
        f"stdio MCP: spawn → tools/list answered; Pentad with {SERVERS} servers configured, peers with one",
        "≤ 20 ms",
    )
    memory = Row("memory", "resident memory of the face after that answer; others of the home", "face ≤ 15 MB, keeper ≤ 40 MB")
    if pentad:
        with PentadHome(pentad) as home:
            home.configure({f"s{number:02}": ["/bin/false", str(number)] for number in range(SERVERS)})
            text, numbers = starts(home.mcp(), home.env, STARTS)
            answer.cells.append(Measured("pentad", text, numbers, numbers["p50_ms"] <= 20))
            memory.cells += weigh(home)
    if peers.everything:
        text, numbers = starts(peers.everything, None, 3)
        answer.cells.append(Measured("server-everything, direct", text, numbers))
        memory.cells.append(Measured("server-everything, direct", f"{numbers['rss_mb']:.0f} MB", numbers))
    return [answer, memory]


def weigh(home: PentadHome) -> list[Measured]:
    """Weighs the face and every other process that belongs to its home."""
    with StdioClient(home.mcp(), home.env) as client:
        client.open()
        client.request("tools/list", {})
        face = client.process.pid
        weights = {face: rss_mb(face) or 0.0}
        for pid in {*descendants(face), *processes_with("PENTAD_HOME", str(home.home))}:
            weights[pid] = rss_mb(pid) or 0.0
        names = {pid: command_line(pid).replace(home.binary, "pentad")[:60] for pid in weights}
    cells = [Measured("pentad", f"face {weights[face]:.1f} MB", {"mb": weights[face]}, weights[face] <= 15)]
    for pid, weight in weights.items():
        if pid != face:
            cells.append(Measured("pentad", f"`{names[pid]}` {weight:.1f} MB", {"mb": weight}, weight <= 40))
    return cells


def tokens(text: str, peers: Peers) -> tuple[int, str]:
    """Counts with OpenAI's o200k_base when gpt-tokenizer is installed, else takes four bytes for a token."""
    if peers.tokenizer is None or peers.node is None:
        return len(text.encode()) // 4, "bytes ÷ 4"
    script = (
        "const {encode}=require('gpt-tokenizer/encoding/o200k_base');"
        "let t='';process.stdin.on('data',d=>t+=d).on('end',()=>console.log(encode(t).length))"
    )
    done = subprocess.run(
        [peers.node, "-e", script], cwd=peers.tokenizer, input=text, capture_output=True, text=True, check=True
    )
    return int(done.stdout), "o200k_base"


def payload_of(argv: list[str], env: dict[str, str] | None, peers: Peers) -> tuple[str, dict[str, object]]:
    with StdioClient(argv, env) as client:
        client.open()
        tools = client.request("tools/list", {})["tools"]
    text = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    count, method = tokens(text, peers)
    numbers = {"bytes": len(text.encode()), "tokens": count, "token_method": method, "tools": len(tools)}
    return f"{numbers['bytes']:,} bytes, {count:,} tokens ({method}), {len(tools)} tools", numbers


def payload(pentad: str | None, peers: Peers) -> Row:
    row = Row("payload", f"tool surface that a client receives, {SERVERS} servers configured", "≤ 6,000 bytes")
    if pentad:
        with PentadHome(pentad) as home:
            home.configure({f"s{number:02}": ["/bin/false", str(number)] for number in range(SERVERS)})
            text, numbers = payload_of(home.mcp(), home.env, peers)
            row.cells.append(Measured("pentad", text, numbers, numbers["bytes"] <= PAYLOAD_LIMIT))
    if peers.everything:
        text, numbers = payload_of(peers.everything, None, peers)
        row.cells.append(Measured("server-everything alone, direct", text, numbers))
    return row


def discovery(pentad: str | None, times: int) -> list[Row]:
    row = Row("discovery", f"`pentad tools --json` over {RECIPES:,} recipes, cold, whole process", "≤ 30 ms, ≤ 25 MB")
    shell = Row("shell-read", "`pentad read '~/self'`, whole process (the lowest price of a verb in the shell)", "–")
    if pentad:
        with PentadHome(pentad) as home:
            for number in range(RECIPES):
                home.recipe(f"tool-{number:04}", document(number))
            text, numbers = timed([pentad, "tools", "--json"], times, home.env)
            meets = numbers["p50_ms"] <= 30 and numbers["max_rss_mb"] <= 25
            row.cells.append(Measured("pentad", text, numbers, meets))
        with PentadHome(pentad) as home:
            text, numbers = timed([pentad, "read", "~/self"], times, home.env)
            shell.cells.append(Measured("pentad", text, numbers))
    return [row, shell]


def document(number: int) -> dict[str, object]:
    """Returns a recipe of ordinary size: three typed arguments and a description."""
    return {
        "description": f"Counts the lines of kind {number} in a file and prints the first of them.",
        "args": ["file:path", "kind:enum(all,code,blank)", "limit:int"],
        "defaults": {"kind": "all", "limit": 10},
        "template": f"count-{number} --kind {{kind}} --limit {{limit}} {{file}}",
    }
