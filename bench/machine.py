"""Readings of the machine: the load of other processes, the memory of this one, and the size of a store on disk.

Everything is read from /proc, so a reading costs microseconds. Without /proc a reading is None.
"""

from __future__ import annotations

import os
import platform
import resource
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Watch:
    """The share of the machine's time that was idle, or was used by this process and its ended children."""

    total: float
    idle: float
    ours: float

    @classmethod
    def start(cls) -> Watch | None:
        try:
            fields = [int(x) for x in _STAT.read_text().splitlines()[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        return cls(sum(fields) / _TICKS, (fields[3] + fields[4]) / _TICKS, _own())

    def share(self) -> float | None:
        """Return the share since `start`, between 0 and 1."""
        now = Watch.start()
        if now is None or now.total <= self.total:
            return None
        others = (now.total - self.total) - (now.idle - self.idle) - (now.ours - self.ours)
        return round(min(1.0, max(0.0, 1 - others / (now.total - self.total))), 3)


def _own() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def anonymous(pid: int | None = None) -> int | None:
    """Return the bytes of a process's memory without a file behind them, or None if they can't be read."""
    try:
        status = Path(f"/proc/{pid or os.getpid()}/status").read_text()
    except OSError:
        return None
    found = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(found[0].split()[1]) * 1024 if found else None


def on_disk(path: Path) -> int:
    """Return the bytes that a folder uses on disk. A sparse file counts by its blocks."""
    return sum(p.stat().st_blocks * 512 for p in path.rglob("*") if p.is_file())


def named() -> str:
    """Return the names of the processor and of the Python version."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")
    except OSError:
        model = ""
    cores = len(os.sched_getaffinity(0))
    return f"{model or platform.processor() or platform.machine()}, {cores} cores, Python {platform.python_version()}"
