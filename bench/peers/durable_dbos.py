#!/usr/bin/env python3
"""Measures durable steps of DBOS on SQLite, its default, with a file database in a temporary folder.

    .tools/peers/dbos/bin/python bench/peers/durable_dbos.py --steps 1000 --parallel 16 --json

A step is a function under `@DBOS.step` that returns a number. The clock runs from the start of the first workflow until the
last result.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import os
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

# The package greets a program without DBOS Conductor at each start.
logging.disable(logging.WARNING)

from dbos import DBOS, DBOSConfig  # noqa: E402

WARM_UP = 50
times: list[float] = []


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow()
def sequence(steps: int) -> int:
    total = 0
    for number in range(steps):
        begun = time.perf_counter()
        total += step(number)
        times.append(time.perf_counter() - begun)
    return total


def measured(steps: int, parallel: int) -> float:
    """Runs `parallel` workflows at once and returns how long all took together."""
    begun = time.perf_counter()
    handles = [DBOS.start_workflow(sequence, steps) for _ in range(parallel)]
    totals = {handle.get_result() for handle in handles}
    seconds = time.perf_counter() - begun
    expected = steps * (steps - 1) // 2
    if totals != {expected}:
        raise RuntimeError(f"the workflows returned {totals} in place of {expected}")
    return seconds


def recorded(database: Path) -> int:
    """Returns how many steps are in the database."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT count(*) FROM operation_outputs").fetchone()[0]
    finally:
        connection.close()


def percentile(values: list[float], share: float) -> float:
    """Returns the value at or below which this share of all values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, round(share * len(ordered) + 0.5) - 1))]


def run(folder: Path, steps: int, parallel: int) -> float:
    database = folder / "dbos.sqlite"
    config: DBOSConfig = {"name": "bench", "system_database_url": f"sqlite:///{database}", "application_version": "1"}
    DBOS(config=config)
    DBOS.launch()
    try:
        measured(WARM_UP, 1)
        times.clear()
        seconds = measured(steps, parallel)
    finally:
        DBOS.destroy()
    expected = WARM_UP + steps * parallel
    if recorded(database) != expected:
        raise RuntimeError(f"{recorded(database)} steps were recorded in place of {expected}")
    return seconds


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("takes whole numbers above 0")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=count, default=1000, help="steps of one workflow")
    parser.add_argument("--parallel", type=count, default=1, help="workflows at once")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("durable_dbos: stopped"))
    with tempfile.TemporaryDirectory(prefix="pentad-bench-dbos-") as name:
        os.chdir(name)
        seconds = run(Path(name), asked.steps, asked.parallel)
        os.chdir("/")
    result = {
        "subject": f"DBOS {importlib.metadata.version('dbos')} (SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]})",
        "steps": asked.steps,
        "parallel": asked.parallel,
        "seconds": seconds,
        "steps_per_second": asked.steps * asked.parallel / seconds,
        "step_p50_ms": percentile(times, 0.5) * 1000,
        "step_p99_ms": percentile(times, 0.99) * 1000,
    }
    text = "{subject}: {parallel} × {steps} steps, {steps_per_second:.0f} steps/s, a step {step_p50_ms:.2f} ms p50, {step_p99_ms:.2f} p99"
    print(json.dumps(result) if asked.json else text.format(**result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
