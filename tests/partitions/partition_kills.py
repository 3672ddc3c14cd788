"""kill -9 and SIGSTOP of partitions and of the holder during puts, with the invariants that must hold afterwards.

    python -m tests.partitions.partition_kills --kills 500 --seed 1
    python -m tests.partitions.partition_kills --zombies 100 --seed 1

A seed determines a story. Kills and stops happen when the next batches are acknowledged, or at a counted step of the
partition that reaches it first. After some of them the holder is killed too, another one opens the store, and

- nothing acknowledged is missing: the store has all batches up to the last acknowledged one, or the one after it;
- an atomic batch, which follows each of these, is stored at all partitions or at none;
- views equal a recompute in plain Python, and the digest that of a store in memory with the same batches;
- all productions have arrived, none is still stored, and the epochs of partitions that ended have grown.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import penstock as ps
from penstock.cache import writer_pid
from penstock.core.metadata.store_layout import read_layout
from tests.partitions.partition_app import MARKS, SOURCE, STOP, Recompute, app, batch, mark, order_stop
from tests.partitions.partition_parent import opened
from tests.waiting import PATIENCE

_SILENT = 1.5  # seconds: a partition gives a sign of life each second
_AGAIN = 0.01
_STEPS = 60  # a batch here is some twenty, and the production after it as many
_ROOT = Path(__file__).resolve().parents[2]
KILLS = ("partition", "partition at a step", "all partitions", "parent", "both")


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited in vain until {what}"
        threading.Event().wait(_AGAIN)


class Parent:
    """The process that serves the partitions."""

    def __init__(self, path: Path, partitions: int, stop: Path, batches: int | None = None) -> None:
        program = [sys.executable, "-m", "tests.partitions.partition_parent", str(path), str(partitions), str(_SILENT)]
        program += [] if batches is None else [str(batches)]
        self.log = path.with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                program,
                cwd=_ROOT,
                env={**os.environ, STOP: str(stop)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self._out = self.process.stdout
        self.acknowledged = 0
        assert self._out.readline() == "open\n", self.log.read_text()

    def work(self, batches: int) -> None:
        """Wait until this number of batches is acknowledged."""
        for _ in range(batches):
            line = self._out.readline()
            assert line.endswith("\n"), self.log.read_text()
            self.acknowledged = int(line)

    def kill(self) -> None:
        """Kill the process, and read its last output. A second call does nothing."""
        if self._out.closed:
            return
        self.process.kill()
        for line in self._out:
            if line.endswith("\n"):
                self.acknowledged = int(line)
        self.process.wait()
        self._out.close()


class Taker:
    """The partition that took the order to stop or to end at a step. Its handle can't refer to another process."""

    def __init__(self, stop: Path) -> None:
        found: list[int] = []

        def taken() -> bool:
            found[:] = [int(file.suffix[1:]) for file in stop.parent.glob(f"{stop.stem}.[0-9]*")]
            return bool(found)

        until(taken, "a partition comes to a step")
        self.pid = found[0]
        for file in stop.parent.glob(f"{stop.stem}.[0-9]*"):
            file.unlink()
        try:
            self._handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._handle = -1

    def until_struck(self) -> None:
        """Wait until the process is stopped or has ended."""
        until(lambda: self._state() == "T" or self.ended(), "the step comes")

    def ended(self) -> bool:
        """Return True if the process was killed, even if its parent has not noticed yet."""
        return self._state() in "ZX"

    def _state(self) -> str:
        try:
            about = Path(f"/proc/{self.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return "Z"
        return about.rpartition(")")[2].split()[0]

    def go_on(self) -> None:
        """Let the process continue, if it still exists."""
        if self._handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGCONT)
            os.close(self._handle)
            self._handle = -1


class Story:
    """One store, and the kills and stops of its processes."""

    def __init__(self, folder: Path, seed: int, partitions: int = 2) -> None:
        self._path, self._stop = folder / "store", folder / "stop"
        self._partitions = partitions
        self._choose = random.Random(seed)
        self._recompute, self._plain = Recompute(), ps.open(app, None)
        self._batches = 0  # in the recompute
        self._acknowledged = 0  # by the holders before
        self._epochs = [0] * partitions
        self._struck = [False] * partitions
        self.killed: Counter[str] = Counter()
        self._parent: Parent | None = None

    def close(self) -> None:
        """End all processes."""
        if self._parent is not None:
            self._parent.kill()
        self._plain.close()

    # -- kills and stops

    def kill(self, who: str) -> None:
        """Kill one process, or several at once."""
        parent = self._serving()
        parent.work(self._choose.randrange(1, 8))
        self.killed[who] += 1
        if who == "partition at a step":
            taker = self._ordered(signal.SIGKILL)
            until(taker.ended, "the partition has ended")
            taker.go_on()
        if who in ("partition", "both"):
            self._strike([self._choose.randrange(self._partitions)])
        if who == "all partitions":
            self._strike(range(self._partitions))
        if who in ("parent", "both"):
            self._end_parent()
        else:
            parent.work(1)

    def zombie(self) -> None:
        """Stop one partition at a step; let it continue after its replacement, or before the supervisor notices."""
        parent = self._serving()
        parent.work(self._choose.randrange(1, 8))
        self.killed["stopped"] += 1
        taker = self._ordered(signal.SIGSTOP)
        if self._choose.random() < 0.9:
            until(taker.ended, "a partition that is stopped is followed")
        taker.go_on()
        parent.work(1)

    def orphan(self) -> None:
        """Stop one partition at a step, and kill the holder: the next holder ends the stopped process."""
        self._serving()
        self.killed["orphan"] += 1
        taker = self._ordered(signal.SIGSTOP)
        self._end_parent()
        self._serving()
        assert taker.pid not in self._pids()
        taker.go_on()

    def _ordered(self, which: signal.Signals) -> Taker:
        order_stop(self._stop, which, self._choose.randrange(1, _STEPS))
        taker = Taker(self._stop)
        taker.until_struck()
        for i, pid in enumerate(self._pids()):
            self._struck[i] |= pid == taker.pid
        return taker

    def _serving(self) -> Parent:
        if self._parent is None:
            self._parent = Parent(self._path, self._partitions, self._stop)
        return self._parent

    def _pids(self) -> list[int | None]:
        layout = read_layout(str(self._path))
        assert layout is not None
        return [writer_pid(folder) for folder in layout.folders(str(self._path))]

    def _strike(self, which: Sequence[int]) -> None:
        pids = self._pids()
        for i in which:
            pid = pids[i]
            if pid is not None:
                with suppress(ProcessLookupError):  # it was replaced at this moment
                    os.kill(pid, signal.SIGKILL)
                    self._struck[i] = True

    def _end_parent(self) -> None:
        assert self._parent is not None
        self._parent.kill()
        self._acknowledged = max(self._acknowledged, self._parent.acknowledged)
        self._parent = None

    # -- checks

    def check(self) -> None:
        """Kill the holder, open the store here, and compare everything with the stored batches."""
        self._serving()
        self._end_parent()
        with opened(self._path, self._partitions, PATIENCE) as engine:
            engine.settle()
            found = engine.remembered(SOURCE)
            done = 0 if found is None else found.offset
            assert self._acknowledged <= done <= self._acknowledged + 1, (
                f"{self._acknowledged} were acknowledged, {done} are in"
            )
            self._marked(engine, done)
            self._given(engine, done)
            self._hold(engine)

    def _marked(self, engine: ps.Engine, done: int) -> None:
        """Check that the last atomic batch, or the one before it, is stored completely."""
        with engine.snapshot() as snap:
            found = [row.value["n"] for row in snap.table("marks").items()]
        if found or self._acknowledged:
            assert len(found) == MARKS
            assert len(set(found)) == 1, f"of an atomic batch a part is in: {found}"
            assert self._acknowledged - 1 <= found[0] < done, f"{self._acknowledged} were acknowledged"

    def _given(self, engine: ps.Engine, done: int) -> None:
        """Put the batch in flight again, as its spout does, and complete the recompute."""
        for number in range(self._batches, done + 1):
            records = batch(number)
            self._recompute.take(records)
            self._plain.ingest(records, SOURCE, number + 1)
        engine.ingest(batch(done), SOURCE, done + 1)
        for own in (engine, self._plain):
            mark(own, done)
        self._recompute.mark = done
        engine.settle()
        self._batches = done + 1
        self._acknowledged = done + 1

    def _hold(self, engine: ps.Engine) -> None:
        with engine.snapshot() as snap:
            for name, rows in self._recompute.views().items():
                assert dict(snap.view(name).items()) == rows, name
        assert engine.digest() == self._plain.digest()
        standing = [handle.standing() for handle in engine.store.handles]
        for i, own in enumerate(standing):
            assert own.pending == 0, f"partition {i} still stores what it was to send"
            for j, other in enumerate(standing):
                assert own.sent.get(j, 0) == other.taken.get(i, 0), f"of {i} to {j}"
            assert own.epoch > self._epochs[i]
        self._epochs = [own.epoch for own in standing]


def story(seed: int, kills: int, zombies: int, orphans: int, check_every: int = 25) -> Counter[str]:
    """Run a story with this number of kills and stops, and report its progress. Return the count of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        own = Story(Path(folder), seed)
        choose = random.Random(seed)
        acts: list[Callable[[], None]] = [own.zombie] * zombies + [own.orphan] * orphans
        acts += [partial(own.kill, KILLS[i % len(KILLS)]) for i in range(kills)]
        choose.shuffle(acts)
        try:
            for n, act in enumerate(acts, 1):
                act()
                if n % check_every == 0 and n < len(acts):
                    own.check()
                    print(f"{n} of {len(acts)}, all held", flush=True)
            own.check()
        finally:
            own.close()
        return own.killed


def main() -> None:
    """Run a story from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--zombies", type=int, default=0)
    parser.add_argument("--orphans", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    killed = story(asked.seed, asked.kills, asked.zombies, asked.orphans)
    who = ", ".join(f"{many} {name}" for name, many in sorted(killed.items()))
    print(f"seed {asked.seed}: {who} in {time.monotonic() - began:.0f} s, all held")


if __name__ == "__main__":
    main()
