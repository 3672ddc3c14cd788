"""The feed beside writers, index folds and builds of views: a replay of its changes gives the rows of the views."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.generations import build
from tests.core.reading.follower import app, document, plain, put
from tests.harness.worlds import TINY
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE

Rows = dict[tuple[str, Any], Any]


def rows_of(snap: ps.Snapshot) -> Rows:
    """Return all rows of all views."""
    return {(name, row.key): row.value for name in snap.schema.views for row in snap.view(name)}


def replayed(rows: Rows, changes: Iterator[list[Any]]) -> Rows:
    """Apply changes to rows. Each change must begin at the stored row and must change it."""
    out, position = dict(rows), 0
    for view, group, old, new, at in changes:
        assert at >= position, "positions ascend"
        position = at
        assert out.get((view, group)) == old
        assert old != new
        if new is None:
            del out[view, group]
        else:
            out[view, group] = new
    return out


@contextmanager
def writing(engine: ps.Engine, seed: int) -> Iterator[None]:
    """Run a thread that puts and deletes without a pause."""
    stop, choose, failed = threading.Event(), Random(seed), []

    def run() -> None:
        try:
            while not stop.is_set():
                put(engine, choose)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not failed


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store. The thread builds its changed views, not the opening."""
    monkeypatch.setattr(build, "AT_ONCE", 0)
    choose = Random(1)
    with ps.open(app(), tmp_path / "s", limits=TINY) as engine:
        engine.put_many("users", [document(choose) for _ in range(1_000)])
    return tmp_path / "s"


@pytest.mark.parametrize("later", [False, True])
def test_between_any_two_positions_while_others_write(filled: Path, later: bool) -> None:
    with ps.open(app(later), filled, limits=TINY) as engine, writing(engine, 2), engine.snapshot() as snap:
        marks, built = [(snap.position, rows_of(snap))], not later
        while len(marks) < 6 or not built:
            built = engine.status()["building"] is None
            with engine.snapshot() as now:
                position, rows = now.position, rows_of(now)
            for since, before in marks:
                changes = (plain(c) for c in engine.changes(since=since) if c.position <= position)
                assert replayed(before, changes) == rows
            if position > marks[-1][0]:
                marks.append((position, rows))
                del marks[1:-6]  # keep the first mark, from before the switch


def test_another_process_follows_over_migrations(filled: Path) -> None:
    command = [sys.executable, "-m", "tests.core.reading.follower", str(filled)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        said = [child.stdout.readline()]
        reading = threading.Thread(target=said.extend, args=(child.stdout,))
        reading.start()
        for number in range(3):
            with ps.open(app(number % 2 == 0), filled, limits=TINY) as engine, writing(engine, number):
                engine.migrate()
                with engine.snapshot() as snap:
                    position = snap.position
                while snap.position < position + 20:
                    snap = engine.snapshot()
                    snap.close()
        with ps.open(app(True), filled, limits=TINY) as engine:
            engine.put("marks", {"id": 1})
            with engine.snapshot() as snap:
                rows = rows_of(snap)
        reading.join(PATIENCE)
    changes = [json.loads(line) for line in said]
    assert child.returncode == 0
    assert len({position for *_, position in changes}) > 20
    assert replayed({}, iter(changes)) == rows


def test_names_and_the_position_are_looked_at_at_once(place: Path | None) -> None:
    with ps.open(app(), place, changes=20) as engine:
        with pytest.raises(ps.UnknownName, match="did you mean 'names'"):
            engine.changes("nmaes")
        with pytest.raises(ps.PositionAhead, match="at position 0"):
            engine.changes("names", since=1)
        choose = Random(1)
        for _ in range(60):
            put(engine, choose)
        with pytest.raises(ps.PositionExpired, match="initial=True") as caught:
            engine.changes("names", since=0)
        assert list(engine.changes("names", since=caught.value.oldest))
        wrong: list[Any] = [True, 1.0, "1"]
        for since in wrong:
            with pytest.raises(ps.DefinitionError, match="since= is"):
                engine.changes("names", since=since)
        with pytest.raises(ps.DefinitionError, match="leave one out"):
            engine.changes("names", since=1, initial=True)


def test_what_there_is_at_first_is_read_when_it_is_asked_for(place: Path | None) -> None:
    with ps.open(app(), place) as engine:
        changes = engine.changes("kept", initial=True)
        engine.put("users", {"id": 1, "name": "Sue", "n": 7})
        assert [(c.group, c.old, c.new, c.position) for c in changes] == [(7, ps.ABSENT, 1, 1)]


def test_a_follower_that_stays_behind_is_told(place: Path | None) -> None:
    with ps.open(app(), place, changes=20) as engine:
        choose = Random(1)
        engine.put("users", document(choose))
        following = engine.changes(follow=True)
        next(following)
        for _ in range(60):
            put(engine, choose)
        with pytest.raises(ps.PositionExpired):
            deque(following, maxlen=0)


def test_a_switch_that_the_feed_no_longer_has_is_not_passed_over(filled: Path) -> None:
    """The feed drops old changes, and the former generation goes with them.

    A reader at such a position gets an error.
    """
    with ps.open(app(True), filled, limits=TINY) as engine:
        engine.migrate()
        assert engine.store.core.switched is not None
        before = engine.store.core.switched - 1
        assert {change.view for change in engine.changes("names", since=before)} == {"names"}
    with ps.open(app(True), filled, limits=TINY, changes=5) as engine:
        choose = Random(1)
        for _ in range(40):
            put(engine, choose)
        assert engine.store.core.catalog.former == ()
        with pytest.raises(ps.PositionExpired):
            engine.changes("names", since=before)
