"""A view is sent to another store by two-phase commit: kills of either side lose nothing and repeat nothing."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.connector import (
    ConnectorFault,
    LogFile,
    LogRecord,
    SessionSocket,
    TransactionDecided,
    TransactionOpened,
    VoteReceived,
)
from penstock.sink import SinkLog, SinkTaken, WallarooSink, wallaroo_sink
from penstock.views import ABSENT
from tests.harness.planting import Bug, assert_found
from tests.spout.wallaroo_worker import (
    BEFORE_COMMIT,
    BEFORE_PHASE_1,
    BEFORE_PHASE_2,
    BEFORE_VOTE,
    COOKIE,
    NEW_SESSION,
    Killed,
    Phases,
    Store,
    free_port,
    kill_at,
)
from tests.waiting import PATIENCE

VIEW = "by name"
GROUPS = 5
PHASE_OF = {TransactionOpened: BEFORE_PHASE_1, TransactionDecided: BEFORE_PHASE_2}
"""The phases around a record of the sink's log."""


class Feed:
    """Numbered changes: at position P group P % 5 gets the value P, or is gone. Every third position has no change."""

    @staticmethod
    def after(position: int, end: int) -> list[tuple[int, list[ps.Change]]]:
        return [(p, [] if p % 3 == 2 else [change(p)]) for p in range(position + 1, end + 1)]


def change(position: int) -> ps.Change:
    return ps.Change(VIEW, position % GROUPS, None, ABSENT if position % 7 == 0 else {"n": position}, position)


def rows(end: int) -> dict[int, Any]:
    """Return the view at a position."""
    out: dict[int, Any] = {}
    for _, changes in Feed.after(0, end):
        for one in changes:
            out.pop(one.group, None)
            if one.new is not ABSENT:
                out[one.group] = one.new
    return out


def opened(folder: Path, address: tuple[str, int], name: str = "w1", view: str = VIEW) -> WallarooSink:
    sink = WallarooSink("wallaroo://there", address, COOKIE, name, view, "value", json.dumps)
    sink.folder = str(folder)
    return sink


def received(store: Store) -> dict[int, Any]:
    with store.engine.snapshot() as snap:
        found = {key: snap.table("orders").get(key) for key in range(GROUPS)}
    return {key: doc["value"] for key, doc in found.items() if doc is not None}


def mirror() -> ps.App:
    app = ps.App("mirror")
    app.table("orders", key="key")
    return app


def target(path: Path, port: int) -> Store:
    return Store(path, None, port, "&envelope=view", mirror())


Place = Callable[[str], None]


@contextmanager
def kill_sink_at(struck: int | None) -> Iterator[Place]:
    """Raise at this place of the sink: before and after each record of its log, and while it waits for a vote."""
    numbers, append, wait = count(1), LogFile.append, WallarooSink._wait

    def place(phase: str) -> None:
        if next(numbers) == struck:
            raise Killed(phase)

    def append_between(self: LogFile, record: LogRecord, sync: bool = True) -> None:
        phase = PHASE_OF.get(type(record), NEW_SESSION)
        place(phase)
        append(self, record, sync)
        place(phase)

    def wait_or_end(self: WallarooSink, link: SessionSocket, kind: Any, until: float | None = None) -> Any:
        if kind is VoteReceived and next(numbers) == struck:
            link.turn(0.0)
            raise Killed(BEFORE_VOTE)
        return wait(self, link, kind, until)

    with (
        mock.patch.object(LogFile, "append", append_between),
        mock.patch.object(WallarooSink, "_wait", wait_or_end),
    ):
        yield place


def run(path: Path, seed: int, last: int = 30, phases: Phases | None = None) -> int:
    """Send changes with kills of both sides at random places; return the number of kills."""
    choose = random.Random(f"wallaroo sink {seed}")
    port, reached = free_port(), 0
    struck: Phases = Counter() if phases is None else phases
    before = struck.total()
    while reached < last:
        at_sink = choose.randrange(1, 24) if choose.random() < 0.6 else None
        commit = choose.randrange(1, 12) if choose.random() < 0.5 else None
        with target(path / "store", port) as store, mock.patch.object(wallaroo_sink, "_LAST", 0.05):
            sink = opened(path, store.address)
            sink.stopped = store.ended.is_set
            try:
                with kill_at(commit), kill_sink_at(at_sink) as place, suppress(ConnectorFault):
                    for at, changes in Feed.after(sink.begin() or 0, last):
                        sink.write(changes)
                        sink.holds(at)
                        reached = at
                        if changes:
                            place(BEFORE_COMMIT)
            except Killed as killed:
                struck["coordinator", str(killed)] += 1
            abandon(sink)
            if store.stop():
                struck["participant", store.phase] += 1
    with target(path / "store", port) as store:
        sink = opened(path, store.address)
        for at, changes in Feed.after(sink.begin() or 0, last + 1):
            sink.write(changes)
            sink.holds(at)
        sink.close()
        assert received(store) == rows(last + 1)
        assert store.engine.status()["tables"]["orders"]["rejected"] == 0
    return struck.total() - before


def abandon(sink: WallarooSink) -> None:
    """Leave a sink as a kill does: its connection ends, and nothing is written."""
    sink._drop()
    log, sink._log = sink._log, None
    if log is not None:
        log.close()


def test_kills_of_both_sides_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    assert sum(run(tmp_path / str(seed), seed) for seed in range(6)) > 2


BUGS = [
    Bug(
        "a decision is sent before it is durable",
        "sink.wallaroo_decisions:SinkLog.decide",
        "self._file.append(record)",
        "None",
    ),
    Bug(
        "a decision has the position before it",
        "sink.wallaroo_sink:WallarooSink._commit",
        "self._state.next_position = position",
        "self._state.next_position = position + 1",
    ),
    Bug(
        "a transaction is decided by its number alone",
        "sink.wallaroo_decisions:SinkLog.is_committed",
        "self._last == transaction",
        "True",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(run, tmp_path, range(6, 18), SinkTaken)  # 6 finds each of them


def test_a_view_without_changes_keeps_its_position(tmp_path: Path) -> None:
    with target(tmp_path / "store", 0) as store:
        sink = opened(tmp_path, store.address)
        assert sink.begin() is None
        sink.holds(7)
        sink.close()
        sink = opened(tmp_path, store.address)
        assert sink.begin() == 7
        sink.close()


def test_another_view_under_one_name_is_refused(tmp_path: Path) -> None:
    with target(tmp_path / "store", 0) as store:
        sink = opened(tmp_path, store.address)
        sink.begin()
        sink.close()
        with pytest.raises(SinkTaken, match="it gets the changes of view 'by name'; give this one another name="):
            opened(tmp_path, store.address, view="other").begin()


def test_a_sink_with_other_data_is_refused_with_the_next_step(tmp_path: Path) -> None:
    with target(tmp_path / "store", 0) as store:
        for folder, expected in ((tmp_path / "a", None), (tmp_path / "b", SinkTaken)):
            sink = opened(folder, store.address)
            sink.begin()
            sink.write([change(1)])
            if expected is None:
                sink.holds(1)
            else:
                with pytest.raises(expected, match="a sink with other data needs another name="):
                    sink.holds(1)
            sink.close()


def test_a_decision_that_may_be_durable_is_no_abort(tmp_path: Path) -> None:
    with target(tmp_path / "store", 0) as store:
        sink = opened(tmp_path, store.address)
        sink.begin()
        sink.write([change(1)])
        sink.holds(1)
        sink.write([change(3)])
        lost = mock.patch.object(os, "fdatasync", side_effect=[None, OSError(5, "no answer")])
        with lost, pytest.raises(OSError, match="no answer"):
            sink.holds(3)
        sink.close()
        sink = opened(tmp_path, store.address)
        assert sink.begin() == 3, "the record of the decision is in the file"
        sink.close()
        assert received(store) == rows(3)


def test_a_bad_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkTaken, match="add name= with letters"):
        opened(tmp_path, ("127.0.0.1", 9), name="of two words").begin()


def test_a_wrong_cookie_is_named_at_both_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with target(tmp_path / "store", 0) as store:
        sink = WallarooSink("wallaroo://there", store.address, "wrong", "w1", VIEW, "value", json.dumps)
        sink.folder = str(tmp_path)
        sink.begin()
        sink.write([change(1)])
        with pytest.raises(SinkTaken, match="the sink refused: Bad cookie; compare both configurations"):
            sink.holds(1)
        sink.close()
    assert caplog.text.count("a session of worker without HELLO was ended here: Bad cookie") == 1


def test_a_sink_that_comes_back_hears_the_last_decision_without_a_change(tmp_path: Path) -> None:
    port, decide = free_port(), SinkLog.decide
    with target(tmp_path / "store", port) as store:

        def decide_alone(self: SinkLog, commit: bool) -> None:
            decide(self, commit)
            store.stop()

        sink = opened(tmp_path, store.address)
        sink.begin()
        sink.write([change(1)])
        with mock.patch.object(SinkLog, "decide", decide_alone):
            sink.holds(1)
        sink.tend()
        assert received(store) == {}
    with target(tmp_path / "store", port) as store:
        for _ in range(int(PATIENCE / 0.02)):
            sink.tend()
            if received(store) == rows(1):
                break
            store.ended.wait(0.02)
        assert received(store) == rows(1)
        sink.close()


def test_a_sink_that_is_paused_gets_the_changes_later(tmp_path: Path) -> None:
    """A peer that does not vote is no peer that refuses."""
    tries, real = count(1), WallarooSink._connect

    def connect(self: WallarooSink, until: float | None = None) -> Any:
        if next(tries) == 8:
            store.gate.set()
        return real(self, until)

    with target(tmp_path / "store", 0) as store, mock.patch.object(WallarooSink, "_connect", connect):
        sink = opened(tmp_path, store.address)
        sink.begin()
        with mock.patch.multiple(
            wallaroo_sink, _PATIENCE=0.1, Backoff=mock.Mock(return_value=mock.Mock(next=lambda: 0.01))
        ):
            store.gate.clear()
            sink.write([change(1)])
            sink.holds(1)
        sink.close()
        assert received(store) == {1: {"n": 1}}
