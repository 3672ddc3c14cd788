"""A state of several partitions in this process, and a driver that commits its batches, with faults drawn by seed.

Processes are killed at counted places, tasks run twice, zombies repeat old requests, local copies get lost, and drivers
die before and after a manifest. At the end the state is restored to a store, as users would do it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import penstock as ps
from penstock.cache import META, TurnStore
from penstock.core import Resume, Settings
from penstock.core.metadata.store_layout import layout_of, write_layout
from penstock.engine.calls.envelopes import ingested
from penstock.engine.supplied_store import open_partition
from penstock.generations import agree_numbers
from penstock.mapreduce import even_starts
from penstock.partitions import Member, PartitionExchange, Router
from penstock.partitions.state.local_copy import LocalCopy
from penstock.partitions.state.report_check import misfit
from penstock.partitions.state.state_files import LocalStateFiles
from penstock.partitions.state.state_partition import OffsetRange, StatePartition, TurnElsewhere
from penstock.partitions.state.turns import BatchTurn, Blob, OldTurn, Report, SnapshotFile, StateVersion, Taken
from tests.harness.worlds import TINY

SOURCE = "numbers"
SEED = 7
PLACES: list[tuple[type, str]] = [
    (LocalCopy, "write_changelog"),
    (LocalCopy, "_apply"),
    (LocalCopy, "_fetch"),
    (TurnStore, "keep_turn"),
    (Member, "take"),
    (Member, "receive"),
]
"""The calls before and after which a process may be killed."""


class Killed(BaseException):
    """The process of a partition was killed."""


@dataclass
class Faults:
    """The faults of a run. `rate` is the probability of each one where it may come."""

    draw: Random
    rate: float = 0.0
    kills: int = 0
    zombies: list[Callable[[], object]] = field(default_factory=list)

    def come(self) -> bool:
        """Return whether a fault comes now."""
        return self.draw.random() < self.rate

    def at(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that may be killed before it and after it."""

        def killed(*args: Any, **named: Any) -> Any:
            self._may_kill()
            out = call(*args, **named)
            self._may_kill()
            return out

        return killed

    def _may_kill(self) -> None:
        if self.come():
            self.kills += 1
            raise Killed


class Fleet:
    """The state processes, the files of the state, and the manifests."""

    def __init__(self, app: ps.App, path: Path, partitions: int, faults: Faults) -> None:
        self.app = app
        self.faults = faults
        self.path = path
        self.files = LocalStateFiles(str(path / "state"))
        self.starts = even_starts(partitions)
        self.layout = layout_of(app.name, SEED, self.starts, 0)
        self.versions = [StateVersion() for _ in range(partitions)]
        self.batch = 0
        self.run = 0
        self.draw = Random(faults.draw.random())
        self.processes: list[StatePartition | None] = [None] * partitions

    def process(self, i: int) -> StatePartition:
        """Return the process of a partition. Start it if there is none."""
        own = self.processes[i]
        if own is None:
            folder = self.path / "local" / str(i)
            folder.mkdir(parents=True, exist_ok=True)
            own = self.processes[i] = StatePartition(
                LocalCopy(str(folder), "shop", i, self.files), lambda store: self.member(store, i)
            )
        return own

    def member(self, store: TurnStore, i: int) -> Member:
        """Open the engine of a partition."""
        concert, _ = agree_numbers(self.app, [])
        exchange = PartitionExchange(i, self.layout.ranges(), hands_out=True)
        settings = Settings(1 << 20, TINY)
        return Member(open_partition(self.app, store, exchange, None, None, settings, concert))

    def kill(self, i: int) -> None:
        """Kill a process. Its local copy stays, or gets lost with its host."""
        own, self.processes[i] = self.processes[i], None
        if own is not None:
            own.close()
        if self.draw.random() < 0.3:
            shutil.rmtree(self.path / "local" / str(i), ignore_errors=True)

    def ask(self, i: int, what: Callable[[StatePartition], Any]) -> Any:
        """Send a request to a process. The task of a process that dies is run again."""
        faults = self.faults
        while True:
            if faults.zombies and faults.come():
                with suppress(OldTurn, TurnElsewhere, Killed):
                    faults.draw.choice(faults.zombies)()
            try:
                out = what(self.process(i))
            except Killed:
                self.kill(i)
                if self.draw.random() < 0.5:
                    raise
                continue
            faults.zombies.append(lambda: what(self.process(i)))
            if faults.come():  # the answer gets lost, or a second task runs
                return what(self.process(i))
            return out

    def commit(self, records: Sequence[ps.Record]) -> None:
        """Commit a batch, however many attempts that takes."""
        attempt = 0
        for _ in range(60):
            turn = BatchTurn(self.run, self.batch, attempt)
            try:
                reports = self.stages(turn, records)
            except (Killed, TurnElsewhere, OldTurn):
                attempt += 1
                continue
            if misfit(reports, turn, len(self.versions)) is not None:
                attempt += 1
                continue
            if self.faults.come():  # the driver dies before the manifest
                self.run, attempt = self.run + 1, 0
                continue
            self.keep(reports)
            return
        raise AssertionError("sixty attempts of a batch failed")

    def keep(self, reports: Sequence[Report]) -> None:
        """Write the manifest. The driver may die after it."""
        for report in reports:
            self.versions[report.partition] = self.versions[report.partition].after(report.links)
        if self.draw.random() < 0.2:
            self.compare(self.draw.choice(reports).partition)
        self.batch += 1
        for i, version in enumerate(self.versions):
            if self.draw.random() < 0.2 and (own := self.processes[i]) is not None:
                snapshot: SnapshotFile | None = own.snapshot()
                if snapshot is not None:
                    self.versions[i] = version.over(snapshot)
        if self.faults.come():
            self.run += 1

    def stages(self, turn: BatchTurn, records: Sequence[ps.Record]) -> list[Report]:
        """Run the stages of a batch, and return the reports."""
        router = Router(self.app, self.layout.ranges())
        tables, _ = ingested(self.app, records, SOURCE, self.batch, self.batch + 1)
        routed, _ = router.routed((name, part) for name, parts in tables.items() for part in parts)
        offsets = {SOURCE: OffsetRange(self.batch, Resume(self.batch + 1))}
        kinds = dict(router.kinds)
        every = range(len(self.versions))
        takes: list[Callable[[StatePartition], Taken]] = [
            lambda own, i=i, base=base: own.take(turn, base, routed.get(i, {}), offsets, kinds)
            for i, base in enumerate(self.versions)
        ]
        taken = [self.ask(i, take) for i, take in enumerate(takes)]
        level = 0
        while blobs := [blob for answer in taken for blob in answer.blobs]:
            level, taken = level + 1, []
            for i in every:
                if level == 1 and self.faults.come():
                    blobs = self.taken_again(blobs, takes)
                taken.append(self.ask(i, self.receive(turn, level, to(i, blobs))))
        return [self.ask(i, lambda own: own.end(turn, level + 1, [])) for i in every]

    def taken_again(self, blobs: list[Blob], takes: Sequence[Callable[[StatePartition], Taken]]) -> list[Blob]:
        """Lose the shuffle files of a task: it runs again elsewhere. Receivers that have its productions keep them."""
        lost = self.draw.randrange(len(takes))
        self.kill(lost)
        return [blob for blob in blobs if blob.sender != lost] + self.ask(lost, takes[lost]).blobs

    def receive(self, turn: BatchTurn, level: int, blobs: list[Blob]) -> Callable[[StatePartition], Taken]:
        """Return the request of a stage that applies productions."""
        return lambda own: own.receive(turn, level, blobs)

    def compare(self, i: int) -> None:
        """Compare the rows of a process with those of a copy that is made from the state, byte by byte."""
        own = self.processes[i]
        if own is None or own._open is None:
            return
        folder, rate = self.path / "compared", self.faults.rate
        folder.mkdir()
        self.faults.rate = 0.0
        copy = LocalCopy(str(folder), "shop", i, self.files).open(self.versions[i])
        try:
            with copy.read() as rows, own._open.store.read() as expected:
                for db in {*rows.names(), *own._open.copy.read().names()} - {META}:
                    assert list(rows.scan(db)) == list(expected.scan(db)), (db, i)
                found = {key: value for key, value in rows.scan(META) if key not in (b"digests", b"state version")}
                assert found.items() <= dict(expected.scan(META)).items()
        finally:
            copy.close()
            shutil.rmtree(folder)
            self.faults.rate = rate

    def restore(self, path: Path) -> None:
        """Make a store of the state, in a new folder."""
        for i, folder in enumerate(self.layout.folders(str(path))):
            os.makedirs(folder)
            LocalCopy(folder, "shop", i, self.files).open(self.versions[i]).close()
        write_layout(str(path), self.layout)

    def close(self) -> None:
        """End all processes."""
        for own in self.processes:
            if own is not None:
                own.close()


def to(i: int, blobs: Sequence[Blob]) -> list[Blob]:
    """Return the blobs of a receiver."""
    return [blob for blob in blobs if blob.receiver == i]


def faulty(faults: Faults) -> mock._patch_dict | Any:
    """Return a context in which processes are killed at the counted places."""
    return _Places(faults)


class _Places:
    def __init__(self, faults: Faults) -> None:
        self._patches = [mock.patch.object(kind, name, faults.at(getattr(kind, name))) for kind, name in PLACES]

    def __enter__(self) -> None:
        for patch in self._patches:
            patch.start()

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()
