"""Starting processes and reading what the kernel knows of them, with little overhead of our own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

DEV_NULL = os.open(os.devnull, os.O_RDWR)


@dataclass
class Ended:
    """One process from start to end."""

    ms: float
    code: int


def run_once(argv: list[str], env: dict[str, str] | None = None) -> Ended:
    """Runs a command with nothing on its three streams; the clock stands around spawn and wait only."""
    environment = dict(os.environ) if env is None else env
    actions = [(os.POSIX_SPAWN_DUP2, DEV_NULL, fd) for fd in (0, 1, 2)]
    start = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, environment, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    return Ended(ms=(time.perf_counter() - start) * 1000, code=os.waitstatus_to_exitcode(status))


# A child's peak begins with the memory of the process that spawned it, so a bare interpreter does the spawning.
PEAK_PROBE = """
import os, sys
def peak(argv):
    null = os.open(os.devnull, os.O_RDWR)
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)])
    return os.wait4(pid, 0)[2].ru_maxrss
floor = peak(["/bin/true"])
print(floor, peak(sys.argv[1:]))
"""


@dataclass
class Peak:
    """Peak memory of a process; below the floor nothing can be seen."""

    mb: float
    floor_mb: float

    def __str__(self) -> str:
        return f"under {self.floor_mb:.0f} MB" if self.mb < self.floor_mb + 0.5 else f"{self.mb:.0f} MB"


def peak_memory(argv: list[str], env: dict[str, str] | None = None) -> Peak:
    """Runs a command once more and returns the most memory that it held at a time."""
    probe = [sys.executable, "-I", "-S", "-c", PEAK_PROBE, *argv]
    done = subprocess.run(probe, env=env, capture_output=True, text=True, check=True)
    floor, peak = (int(number) / 1024 for number in done.stdout.split())  # Linux counts in KiB
    return Peak(peak, floor)


def rss_mb(pid: int) -> float | None:
    """Returns the resident memory of a live process."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def processes_with(variable: str, value: str) -> list[int]:
    """Returns the processes that were started with this variable: also those that left our tree."""
    wanted = f"{variable}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)


def descendants(root: int) -> list[int]:
    """Returns a process and everything below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        parent = int(stat[stat.rindex(")") + 2 :].split()[1])
        parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += parents.get(pid, [])
    return found


def percentile(values: list[float], share: float) -> float:
    """Returns the value at or below which this share of all values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, round(share * len(ordered) + 0.5) - 1))]


def fsync_ms(folder: Path, times: int = 200) -> list[float]:
    """Measures what the disk itself takes for one small durable append."""
    path = folder / "fsync-probe"
    taken = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(times):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - start) * 1000)
    path.unlink()
    return taken
