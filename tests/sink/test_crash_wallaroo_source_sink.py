"""A view is sent to another store over a source's stream: kills of either side lose nothing and repeat nothing."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from itertools import count, islice
from pathlib import Path
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.cli.running.feed_steps import FeedSteps
from penstock.connector import ConnectorFault
from penstock.sink import wallaroo_source_log, wallaroo_source_sink
from tests.harness.planting import Bug, assert_found
from tests.sink.wallaroo_source import GROUPS, Disk, expected, give, opened, received, target
from tests.spout.wallaroo_worker import Killed, free_port, kill_at, shop

LAST = 40  # positions of a history


def run(path: Path, seed: int, last: int = LAST) -> int:
    """Send changes with kills of both sides and power losses at random places; return the number of kills."""
    choose = random.Random(f"wallaroo source sink {seed}")
    port, reached, kills = free_port(), 0, 0
    with mock.patch.object(wallaroo_source_sink, "_LAST", 0.2), mock.patch.object(wallaroo_source_log, "_LONG", 2000):
        while reached < last:
            disk = Disk(choose.randrange(1, 40) if choose.random() < 0.6 else None, choose.random())
            commit = choose.randrange(1, 12) if choose.random() < 0.5 else None
            with target(path / "store", port) as store, closing(opened(path, store.address)) as sink:
                sink.stopped = store.ended.is_set
                with kill_at(commit), disk.kills(), suppress(Killed, ConnectorFault):
                    start = sink.begin() or 0
                    stop = min(last, start + choose.randrange(1, 20))
                    give(sink, start, stop)
                    if choose.random() < 0.5:
                        sink.finish()
                    reached = stop
            kills += 1
            assert kills < 40, "no progress"
            if choose.random() < 0.5:
                disk.lose(path)
        with target(path / "store", port) as store, closing(opened(path, store.address)) as sink:
            sink.stopped = store.ended.is_set
            give(sink, sink.begin() or 0, last + 1)
            sink.finish()
            assert received(store) == expected(last + 1)
    return kills


def test_kills_of_both_sides_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    for seed in range(5):
        run(tmp_path / str(seed), seed)


def test_a_view_of_several_partitions_is_sent_once(tmp_path: Path) -> None:
    """Each run ends in the middle of a step, and the next one reads the partitions from the position of the log."""
    numbers, rows = count(), {}
    with target(tmp_path / "mirror") as store:
        for ends in (2, 1, 3, None):
            with (
                ps.open(shop(), tmp_path / "store", partitions=2, processes=False) as engine,
                closing(opened(tmp_path, store.address)) as sink,
            ):
                engine.put_many("orders", [{"id": next(numbers), "name": n % GROUPS, "v": n} for n in range(20)])
                steps = FeedSteps(engine, ["sums"], sink.begin())
                for changes, position in islice(steps.step(), ends):
                    sink.write(changes)
                    if position is not None:
                        sink.holds(position)
                if ends is None:
                    sink.finish()
                    with engine.snapshot() as snap:
                        rows = dict(snap.view("sums").items())
        assert received(store) == (rows, 0)


LOG = "sink.wallaroo_source_log:MessageLog."
BUGS = [
    Bug(
        "a message is sent before it is durable",
        "connector.sockets.log_file:LogFile.append",
        "self._files.fdatasync(self._file)",
        "pass",
    ),
    Bug("ids are used again after a restart", LOG + "_apply", "self.last = number\n", "self.last = number - 1\n"),
    Bug("the messages of an incomplete position stay", LOG + "__init__", "records[: ends[-1] + 1]", "records"),
    Bug(
        "the position comes before its messages",
        LOG + "add",
        "for number",
        "self._file.append(PositionHeld(now, position))\n    for number",
    ),
    Bug(
        "a repetition begins one message too late",
        "connector.sockets.source_client:ClientStream.take",
        "self.waiting[0][0] <= point:",
        "self.waiting[0][0] <= point + 1:",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(run, tmp_path, range(12), PenstockError)
