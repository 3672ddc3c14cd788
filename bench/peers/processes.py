"""A process with all its descendants: their CPU time, the time that other processes took, and their end.

Everything is read from /proc. A descendant that ended counts with the parent that awaited it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_GRACE = 10.0  # seconds between the request to end and the kill


def _stat(pid: int) -> list[str] | None:
    """Return the fields of a process after its name, or None if it is gone."""
    with suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return None


def tree(pid: int) -> list[int]:
    """Return a process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(_PROC):
        if name.isdigit() and (found := _stat(int(name))):
            children.setdefault(int(found[1]), []).append(int(name))
    out = [pid]
    for one in out:
        out += children.get(one, [])
    return out


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, and of those that they awaited."""
    ticks = sum(sum(map(int, found[11:15])) for one in tree(pid) if (found := _stat(one)))
    return ticks / _TICKS


def end(pid: int) -> None:
    """End a process and its descendants by their ids, and kill those that stay. The caller awaits its own child."""
    every = {one: found[19] for one in tree(pid) if (found := _stat(one))}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for one in _living(every):
            with suppress(ProcessLookupError):
                os.kill(one, number)
        until = time.monotonic() + _GRACE
        while _living(every) and time.monotonic() < until:
            time.sleep(0.05)


def runs(pid: int) -> bool:
    """Test whether a process runs. One that only waits to be awaited does not."""
    found = _stat(pid)
    return found is not None and found[0] != "Z"


def _living(every: dict[int, str]) -> list[int]:
    """Return the processes of the same start that still run."""
    return [pid for pid, start in every.items() if runs(pid) and (found := _stat(pid)) and found[19] == start]


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clock, the CPU seconds of a process tree, and those of the whole machine."""

    wall: float
    cpu: float
    total: float
    idle: float
    bench: float

    @classmethod
    def read(cls, pid: int) -> Clocks:
        fields = [int(field) / _TICKS for field in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        used = time.process_time()
        return cls(time.perf_counter(), cpu_seconds(pid), sum(fields), fields[3] + fields[4], used)

    def quiet_since(self, before: Clocks) -> float:
        """Return the share of the machine that no other process used, between 0 and 1."""
        total = self.total - before.total
        own = (self.cpu - before.cpu) + (self.bench - before.bench)
        others = total - (self.idle - before.idle) - own
        return round(min(1.0, max(0.0, 1 - others / total)), 3) if total > 0 else 1.0
