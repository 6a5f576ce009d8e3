"""What came out: one Markdown table, and the same as JSON."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Measured:
    """One cell: who, the text that a person reads, the numbers behind it, and whether the target holds."""

    subject: str
    text: str
    numbers: dict[str, Any] = field(default_factory=dict)
    meets: bool | None = None


@dataclass
class Row:
    """One row of the table."""

    key: str
    what: str
    target: str
    cells: list[Measured] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def machine() -> dict[str, Any]:
    """Returns what the numbers depend on."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith(("model name", "hardware", "cpu model")):
            cpu = line.split(":", 1)[1].strip()
            break
    memory = Path("/proc/meminfo").read_text().splitlines()[0].split()[1]
    load = Path("/proc/loadavg").read_text().split()[0]
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(memory) / 1024 / 1024, 1),
        "kernel": platform.release(),
        "load_before": float(load),
    }


def markdown(rows: list[Row], about: dict[str, Any]) -> str:
    lines = [
        f"Measured on {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, Linux {about['kernel']}; "
        f"load before the run {about['load_before']}.",
        "",
        "| what | target | Pentad | | peers in the same run |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        ours = [cell for cell in row.cells if cell.subject == "pentad"]
        peers = [f"{cell.subject}: {cell.text}" for cell in row.cells if cell.subject != "pentad"]
        verdicts = [cell.meets for cell in ours if cell.meets is not None]
        verdict = "" if not verdicts else ("met" if all(verdicts) else "**missed**")
        text = "<br>".join(cell.text for cell in ours) or "not measured"
        if row.failed:
            text += "".join(f"<br>failed: {reason}" for reason in row.failed)
        lines.append(f"| {row.what} | {row.target} | {text} | {verdict} | {'<br>'.join(peers) or '–'} |")
    return "\n".join(lines) + "\n"


def as_json(rows: list[Row], about: dict[str, Any]) -> dict[str, Any]:
    return {"machine": about, "rows": [asdict(row) for row in rows]}
