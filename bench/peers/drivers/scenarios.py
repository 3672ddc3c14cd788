"""The scenarios of a database that keeps views, over the few operations that all of them have.

Each driver of a database implements `Peer` and calls `main`. It needs the standard library alone.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from threading import Event, Thread
from typing import Any, Protocol

from bench.peers.drivers.turn import Turn, cut
from bench.peers.processes import tree
from bench.peers.shapes import Scenario, View

_FILL = 10_000  # lines of a batch that fills a store
_PAUSE = 0.01  # seconds between two reads of the reader
_CHILD = "BENCH_PEERS_FILLS"


class Peer(Protocol):
    """An open database with the views of a case."""

    version: str

    def write(self, lines: list[bytes]) -> None:
        """Make one batch durable, and visible in the views."""

    def reader(self) -> Callable[[str], Any]:
        """Return a function that reads the row of a city, for another thread."""
        ...

    def add(self, view: View) -> Callable[[], bool]:
        """Begin to add a view, and return a function that tells whether it is complete."""
        ...

    def rows(self) -> Iterable[Iterable[Any]]:
        """Return the rows of all views, after the writer was closed."""
        ...

    def close(self) -> None:
        """End all work of the writer."""


Opened = Callable[[Turn, bool], Peer]
"""Open the database of a turn: an empty one, or with True the one that exists."""


def main(opened: Opened) -> None:
    """Run the scenario of this turn."""
    turn = Turn()
    if os.environ.get(_CHILD):
        _fill_and_wait(turn, opened)
    match turn.workload.scenario:
        case Scenario.THROUGHPUT:
            _throughput(turn, opened)
        case Scenario.LATENCY:
            _latency(turn, opened)
        case Scenario.RESTART:
            _restart(turn, opened)
        case Scenario.ADDED_VIEW:
            _added(turn, opened)


def _filled(peer: Peer, lines: list[bytes]) -> None:
    for part in cut(lines, _FILL):
        peer.write(part)


def _throughput(turn: Turn, opened: Opened) -> None:
    """Write the measured lines batch by batch."""
    before, lines = turn.parts()
    peer = opened(turn, False)
    _filled(peer, before)
    batches = cut(lines, turn.batch)
    turn.ready()
    for part in batches:
        peer.write(part)
    peer.close()
    turn.done(peer.version, documents=len(lines))
    turn.write(peer.rows())


def _latency(turn: Turn, opened: Opened) -> None:
    """Write lines as they arrive, all that are due in one batch, while another thread reads rows."""
    before, lines = turn.parts()
    peer, stopped = opened(turn, False), Event()
    _filled(peer, before)
    reads: list[float] = []
    reader = Thread(target=_read, args=(peer.reader(), stopped, reads))
    turn.ready()
    reader.start()
    waits: list[float] = []
    began = time.perf_counter()
    try:
        while (n := len(waits)) < len(lines):
            due = min(int((time.perf_counter() - began) * turn.case.rate), len(lines), n + turn.batch)
            if due <= n:
                time.sleep(max(0.0, began + (n + 1) / turn.case.rate - time.perf_counter()))
                continue
            peer.write(lines[n:due])
            now = time.perf_counter()
            waits += [now - began - i / turn.case.rate for i in range(n, due)]
    finally:
        stopped.set()
        reader.join()
    figures = {f"{name} of a write, ms": _percentile(waits, share) for name, share in _SHARES}
    figures["p99 of a read, ms"] = _percentile(reads, 0.99)
    peer.close()
    turn.done(peer.version, **figures)
    turn.write(peer.rows())


_SHARES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))


def _percentile(seconds: list[float], share: float) -> float:
    ordered = sorted(seconds) or [0.0]
    return 1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _read(read: Callable[[str], Any], stopped: Event, reads: list[float]) -> None:
    chosen = random.Random(1)
    while True:
        began = time.perf_counter()
        read(f"c{chosen.randrange(500)}")
        reads.append(time.perf_counter() - began)
        if stopped.wait(_PAUSE):
            return


def _fill_and_wait(turn: Turn, opened: Opened) -> None:
    """Write all lines in a process of its own, which its parent then kills."""
    peer = opened(turn, False)
    for part in turn.batches():
        peer.write(part)
    print("filled", flush=True)
    signal.pause()


def _restart(turn: Turn, opened: Opened) -> None:
    """Kill the process that wrote all lines, open its database, and read a row."""
    command = [sys.executable, "-m", _module(), *sys.argv[1:]]
    child = subprocess.Popen(command, env=os.environ | {_CHILD: "1"}, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    if child.stdout.readline().strip() != "filled":
        raise SystemExit("the process that fills the database ended early")
    for pid in tree(child.pid):
        with suppress(ProcessLookupError):  # a server ends with its parent
            os.kill(pid, signal.SIGKILL)
    child.wait()
    turn.ready()
    began = time.perf_counter()
    peer = opened(turn, True)
    peer.reader()("c1")
    seconds = time.perf_counter() - began
    peer.close()
    turn.done(peer.version, **{"until the first read, s": seconds})
    turn.write(peer.rows())


def _module() -> str:
    spec = sys.modules["__main__"].__spec__
    assert spec
    return spec.name


def _added(turn: Turn, opened: Opened) -> None:
    """Add the last view of the case while batches are written, and then write the rest."""
    before, lines = turn.parts()
    views = turn.case.views
    turn.case = replace(turn.case, views=views[:-1])
    peer = opened(turn, False)
    _filled(peer, before)
    batches = cut(lines, turn.batch)
    turn.ready()
    began = last = time.perf_counter()
    complete, pauses, written = peer.add(views[-1]), [], 0
    while written < len(batches):
        peer.write(batches[written])
        written += 1
        now = time.perf_counter()
        pauses.append(now - last)
        last = now
        if complete():
            break
    seconds = time.perf_counter() - began
    while not complete():
        time.sleep(0.01)
        seconds = time.perf_counter() - began
    turn.case = replace(turn.case, views=views)
    figures = {"until it is complete, s": seconds, "longest wait of a writer, s": max(pauses)}
    for part in batches[written:]:
        peer.write(part)
    peer.close()
    turn.done(peer.version, **figures)
    turn.write(peer.rows())
