"""What the machine says of itself: who else ran, how much memory is ours, how big a store is on disk.

Everything is read from /proc, so that measuring costs microseconds; where there is no /proc a reading is None.
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
    """How much of the machine others left to us: the share of its time that was idle, or was spent by this process and
    its ended children.
    """

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
        """Since `start`, between 0 and 1."""
        now = Watch.start()
        if now is None or now.total <= self.total:
            return None
        others = (now.total - self.total) - (now.idle - self.idle) - (now.ours - self.ours)
        return round(min(1.0, max(0.0, 1 - others / (now.total - self.total))), 3)


def _own() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def anonymous(pid: int | None = None) -> int | None:
    """Bytes of memory of a process that no file backs; None where that can't be read (any more)."""
    try:
        status = Path(f"/proc/{pid or os.getpid()}/status").read_text()
    except OSError:
        return None
    found = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(found[0].split()[1]) * 1024 if found else None


def on_disk(path: Path) -> int:
    """Bytes that a folder takes of the disk; a sparse file counts by its blocks."""
    return sum(p.stat().st_blocks * 512 for p in path.rglob("*") if p.is_file())


def named() -> str:
    """The processor and the Python, in a few words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")
    except OSError:
        model = ""
    cores = len(os.sched_getaffinity(0))
    return f"{model or platform.processor() or platform.machine()}, {cores} cores, Python {platform.python_version()}"
