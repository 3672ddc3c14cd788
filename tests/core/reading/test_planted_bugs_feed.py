"""Bugs planted in the feed: one history with every kind of event finds each, and passes without a planted bug."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import penstock as ps
from penstock.engine import open_on
from tests.core.reading import test_oracle_feed
from tests.core.reading.follower import app, plain, put
from tests.core.reading.test_feed_beside import Rows, replayed, rows_of
from tests.harness.histories import LastingStore
from tests.harness.planting import Bug, Edit

KEPT = 60  # changes that the feed keeps at the end


class Story:
    """A store with a long history, and its rows at some positions."""

    def __init__(self) -> None:
        self.store = LastingStore()
        self.choose = Random(5)
        self.marks: list[tuple[int, Rows]] = []
        self.open(False)

    def open(self, later: bool) -> None:
        self.engine, self.core = open_on(app(later), self.store)

    def now(self) -> tuple[int, Rows]:
        with self.engine.snapshot() as snap:
            return snap.position, rows_of(snap)

    def some(self, n: int = 6) -> None:
        """Put some batches, and remember the rows."""
        for _ in range(n):
            put(self.engine, self.choose)
        self.marks.append(self.now())

    def check(self) -> None:
        """Check that the feed leads from each remembered position to the current rows, or reports that it expired."""
        position, rows = self.now()
        oldest = self.core.state.followed
        shown_changes = [plain(change) for change in self.engine.changes()]
        assert all(oldest < at <= position for *_, at in shown_changes)
        for since, before in self.marks:
            if since < oldest:
                with pytest.raises(ps.PositionExpired):
                    self.engine.changes(since=since)
            else:
                assert replayed(before, (plain(change) for change in self.engine.changes(since=since))) == rows

    def run(self) -> None:
        """Run the whole history."""
        self.some()
        self.repair()
        self.engine.put_many("users", [{"id": 1_000 + i, "name": "Eve", "n": i * 7} for i in range(1_500)])
        self.some()
        self.engine.put("users", {"id": 7, "name": "Eve", "n": 1 << 70})  # too large for a lane
        for key in (5_000, 5_001):  # both have the same mean
            self.engine.put("users", {"id": key, "name": "Ida", "n": 4})
        self.some()
        following = self.engine.changes(initial=True)
        seen = [plain(next(following)) for _ in range(len(self.now()[1]))]
        self.open(True)
        while self.core.build is not None:
            self.some(1)
            self.core.build_step(500)
        self.some()
        seen += [plain(change) for change in following]
        assert replayed({}, iter(seen)) == self.now()[1]
        self.check()
        self.core.feed._changes = KEPT
        for _ in range(20):
            self.some(1)
        self.check()
        assert len(list(self.engine.changes())) <= 2 * KEPT

    def repair(self) -> None:
        """Lose a row, without a change in the feed, and restore it, with a change."""
        with self.store.write() as writer:
            db = self.core.views["kept"].reduce.db
            key, _ = next(iter(writer.scan(db)))
            writer.delete_many(db, [key])
        self.core.forget()
        self.marks = [self.now()]
        assert self.engine.restate("kept")


BUGS = [
    Bug(
        "what a repair changed is not told",
        "core.commit:Core._amend",
        "Writes(feeding=self.feed.on)",
        "Writes(feeding=False)",
    ),
    Bug(
        "a commit behind a large one is passed over",
        "core.reading.feed_reader:FeedReader._read",
        "return out, position, True, False",
        "return out, position + 1, True, False",
    ),
    Bug("rows that stay are in the feed", "core.reading.feed_reader:FeedReader._read", "changes.apart()", "changes"),
    Bug(
        "changes after a switch come before it",
        "core.reading.feed_reader:FeedReader._read",
        "feed_key(stop)",
        "feed_key(end + 1)",
    ),
    Bug(
        "a switch is passed over",
        "core.reading.feed_reader:FeedReader._read",
        "return out, max(since, stop - 1), before_span or switch is not None, switch is not None",
        "return out, max(since, stop - 1 if switch is None else switch), before_span, False",
    ),
    Bug(
        "rows come at the position after theirs",
        "core.reading.feed_reader:_follow",
        "since = snap.position",
        "since = snap.position + 1",
    ),
    Bug(
        "what no lane holds is told as zeros",
        "mapreduce.fold.feed_rows:result_changes",
        "for place, *payloads in odd:",
        "for place, *payloads in ():",
    ),
    Bug(
        "before and after change places",
        "mapreduce.fold.feed_rows:result_changes",
        "(lanes[:, :half], lanes[:, half:])",
        "(lanes[:, half:], lanes[:, :half])",
    ),
    Bug(
        "changes are not counted",
        "mapreduce.fold.feed_rows:feed_row",
        "changes + sum(len(p.groups) for p in parts)",
        "changes",
    ),
    Bug("what is dropped is not said", "core.feed_log:FeedLog.trim", "followed=followed", "followed=state.followed"),
    Bug(
        "the row of a commit is not kept",
        "core.feed_log:FeedLog.put",
        "writer.put_many(FEED, [(key, row)], append=True)",
        "state.position % 9 and writer.put_many(FEED, [(key, row)], append=True)",
    ),
]


def test_no_bug_is_found_where_none_was_planted() -> None:
    Story().run()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ps.PenstockError, LookupError, pytest.fail.Exception)):
        Story().run()


def test_a_time_without_a_feed_that_is_not_said_is_found(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gap = "old.followed if fed or not writes.changed else position"
    Edit("core.commit:state_after", gap, "old.followed").plant(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_oracle_feed.test_what_was_not_fed_is_not_passed_over(store_path)
