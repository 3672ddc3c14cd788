"""The plan of a stream, which each task gets, and the helpers of tasks in a Python worker.

Spark gives a task to any worker, so a worker assumes nothing about the tasks before. It keeps its connections to state
processes, and drops one that breaks.
"""

from __future__ import annotations

import gc
import os
import socket
from dataclasses import dataclass

from penstock.core import Settings
from penstock.engine import StateServer
from penstock.mapreduce import KeyRanges
from penstock.partitions import AppTransfer, Router, StateClient, StateFiles, StateStart

__all__ = ["StreamPlan", "client_of", "router_of", "settled_heap"]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The app of a stream, its state, and the folder for local copies on each host."""

    app: AppTransfer
    state: str
    starts: tuple[int, ...]
    seed: int
    files: StateFiles
    local: str
    settings: Settings
    idle: float = 60.0

    @property
    def partitions(self) -> int:
        """Return the number of partitions."""
        return len(self.starts)

    def start(self, partition: int) -> StateStart:
        """Return the message that starts the process of a partition on this host."""
        folder = os.path.join(self.local, self.state, _boot_id(), str(partition))
        settings = self.settings.share(self.partitions)
        return StateStart(
            self.app,
            self.state,
            partition,
            self.starts,
            self.seed,
            folder,
            self.files,
            settings,
            StateServer.__module__,
            self.idle,
            _program(),
        )


def _boot_id() -> str:
    """Return the id of this start of the host. A local copy is not synced, so a power loss makes it worthless."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _program() -> int:
    """Return the process of the program that runs the tasks: the parent of PySpark's daemon, or of this process."""
    daemon = os.getppid()
    with open(f"/proc/{daemon}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


_clients: dict[tuple[str, str, int], StateClient] = {}
_routers: dict[tuple[str, int], Router] = {}
_settled = False


def client_of(plan: StreamPlan, partition: int) -> StateClient:
    """Return this worker's client of the process of a partition."""
    key = plan.local, plan.state, partition
    if key not in _clients:
        _clients[key] = StateClient(plan.start(partition))
    return _clients[key]


def router_of(plan: StreamPlan) -> Router:
    """Return this worker's router, without any kind of ts."""
    key = plan.state, plan.seed
    if key not in _routers:
        _routers[key] = Router(plan.app.app(), KeyRanges(plan.starts, plan.seed))
    router = _routers[key]
    router.kinds = {}
    return router


def settled_heap() -> None:
    """Exempt the imported objects of a worker from garbage collection: PySpark collects after each task."""
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()


def host() -> str:
    """Return the name of this host."""
    return socket.gethostname()
