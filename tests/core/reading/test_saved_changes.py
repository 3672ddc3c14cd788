"""Changes of views with early sets: by default the feed and sinks deliver saved changes only.

Histories put documents one at a time. In some puts the partition ends after another partition stored its early set, but
before the batch is saved. A store in memory takes the saved documents only. It gives the possible results of each
group.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import encode_key
from penstock.cli.running.feed_steps import FeedSteps
from penstock.cli.running.sink_thread import begun
from penstock.core.metadata.store_state import StateRow
from penstock.core.reading import feed_reader, visibility
from penstock.engine import PartitionedStore
from penstock.partitions.exchange import exchange
from penstock.views import ABSENT, Change
from tests.core.crash.crash_points import unsynced
from tests.harness.planting import Bug
from tests.partitions.stores import placed
from tests.partitions.test_early import Cut, crossing, cut_off, members, shop
from tests.testing.planted import planted

PARTS = 3
NAMES = tuple("abcdef")


class History:
    """A store of several partitions, a model of the saved documents, and readers that follow from the beginning."""

    def __init__(self, engine: ps.Engine, choose: Random) -> None:
        assert isinstance(engine.store, PartitionedStore)
        self.engine = engine
        self.choose = choose
        self.whole = ps.open(shop("strong"), None)
        self.had: dict[Any, list[Any]] = {name: [ABSENT] for name in NAMES}
        self.place = dict.fromkeys(NAMES, 0)
        self.early: dict[Any, Any] = {}
        self.since: Any = (0,) * PARTS
        self.early_since: Any = (0,) * PARTS
        self.hidden = 0
        self.carry = engine.store.push

    def run(self, steps: int) -> None:
        """Put documents, cut some puts off, and read at any time."""
        for i in range(1, steps + 1):
            self.engine.store.push = self.carry if self.choose.random() < 0.5 else lambda: None
            doc = {"id": self.choose.randrange(12), "name": self.choose.choice(NAMES), "v": i, "ts": i}
            if self.choose.random() < 0.4:
                self.cut(doc)
            else:
                self.engine.put("users", doc)
                self.save(doc)
            if self.choose.random() < 0.5:
                self.read()
        self.engine.store.push = self.carry
        self.engine.settle()
        self.read()
        self.end()

    def cut(self, doc: dict[str, Any]) -> None:
        """Put a document whose partition ends after it has sent an early set."""
        member = members(self.engine)[self.engine.store.ranges.of(encode_key(doc["id"]))]
        with cut_off(member):
            try:
                self.engine.put("users", doc)
            except Cut:
                self.hidden += 1
                self.read()
            else:
                self.save(doc)

    def save(self, doc: dict[str, Any]) -> None:
        """Put a saved document into the model."""
        self.whole.put("users", doc)
        with self.whole.snapshot() as snap:
            for name, had in self.had.items():
                had.append(snap.view("names").get(name, ABSENT))

    def read(self) -> None:
        """Let each reader read all its changes."""
        self.saved(self.engine.changes("names", since=self.since))
        first: dict[Any, Any] = {}
        for change in self.engine.changes("names", initial=True):
            assert change.new in self.had[change.group], f"a result that was never saved: {change}"
            first[change.group] = change.new
        assert all(first.get(name, ABSENT) in self.had[name] for name in NAMES)
        for change in self.engine.changes("names", since=self.early_since, early=True):
            assert self.early.get(change.group, ABSENT) == change.old
            self.early[change.group] = change.new
            self.early_since = change.position

    def saved(self, changes: Iterator[Change]) -> None:
        """Check that changes go from one saved result of a group to a later one."""
        for change in changes:
            had, place = self.had[change.group], self.place[change.group]
            assert had[place] == change.old, f"{change} after {had[place]}"
            assert change.new in had[place:], f"a result that was never saved: {change}"
            self.place[change.group] = place + had[place:].index(change.new)
            self.since = change.position

    def end(self) -> None:
        """Check that all readers have the saved rows."""
        now = {name: had[-1] for name, had in self.had.items()}
        assert {name: self.had[name][place] for name, place in self.place.items()} == now
        assert {name: self.early.get(name, ABSENT) for name in NAMES} == now
        assert self.engine.snapshot().saved == self.engine.snapshot().position


def cut_puts(seed: int, steps: int = 40) -> int:
    """Run one history. Return the number of puts that were cut off."""
    with placed(), ps.open(shop(), None, partitions=PARTS) as engine:
        history = History(engine, Random(seed))
        try:
            history.run(steps)
        finally:
            history.engine.store.push = history.carry  # the close needs it
        return history.hidden


def test_readers_get_saved_changes_alone() -> None:
    assert sum(cut_puts(seed) for seed in range(8)) > 20, "puts must be cut off"


@contextmanager
def told_and_not_saved(path: Path, image: Path | None = None) -> Iterator[tuple[ps.Engine, str, Any]]:
    """Make a store that has saved one document, but not the rest of its group.

    Yield the group, and an earlier position.
    """
    with unsynced(), placed(), ps.open(shop(), path, partitions=2, processes=False) as engine:
        docs, n = crossing(engine)
        engine.put("users", docs[0])
        engine.settle()
        since = engine.snapshot().position
        with cut_off(members(engine)[0]), suppress(Cut):
            engine.put_many("users", docs[1:])
        if image is not None:
            shutil.copytree(path, image, ignore=lambda _, names: [x for x in names if x in ("owner", "socket")])
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]]["n"] == n, "readers of the view see it"
        yield engine, docs[0]["name"], since


def test_a_sink_gets_it_only_where_it_is_asked_for_early(tmp_path: Path) -> None:
    with told_and_not_saved(tmp_path / "s") as (engine, _, since):
        for early, most in ((False, [1]), (True, [1, 40])):
            first = FeedSteps(engine, ["names"], None, early)
            rows = [change.new["n"] for part, _ in first.step() for change in part]
            assert rows == most[-1:]
            later = FeedSteps(engine, ["names"], since, early)
            changes = [change.new["n"] for part, _ in later.step() for change in part]
            assert changes == most[1:]
        was_early = FeedSteps(engine, ["names"], engine.snapshot().position)
        assert [list(part) for part, _ in was_early.step() if part] == []
        engine.settle()
        assert [change.new["n"] for part, _ in was_early.step() for change in part] == [1], "it was taken back"
        assert list(engine.changes("names", since=since)) == []


def test_the_option_of_a_sink(tmp_path: Path) -> None:
    with ExitStack() as stack:
        for text, early in (("file:{}/a", False), ("file:{}/b?early=1", True)):
            assert begun(stack, str(tmp_path), "shop", "x", "names", text.format(tmp_path))._early is early
        with pytest.raises(ps.PenstockError, match="early=maybe is neither on nor off"):
            begun(stack, str(tmp_path), "shop", "x", "names", f"file:{tmp_path}/c?early=maybe")


def test_a_store_that_was_killed_in_that_moment(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with told_and_not_saved(tmp_path / "s", image) as (_, _, since):
        pass
    with unsynced():
        with ps.open(shop(), image, readonly=True) as engine:
            assert list(engine.changes("names", since=since)) == []
            assert [change.new["n"] for change in engine.changes("names", initial=True)] == [1]
            at = engine.snapshot().saved
        with ps.open(shop(), image, processes=False) as engine:
            engine.settle()
            for start in (since, at):
                assert list(engine.changes("names", since=start)) == []
            assert [change.new["n"] for change in engine.changes("names", since=since, early=True)] == [40, 1]
            engine.put("users", {"id": 10_000, "name": "zz", "v": 1, "ts": 1})
            assert [change.group for change in engine.changes("names", since=since)] == ["zz"]


def owned(engine: ps.Engine, partition: int, keys: Iterable[Any]) -> Iterator[Any]:
    """Find the keys that a partition owns."""
    assert isinstance(engine.store, PartitionedStore)
    return (key for key in keys if engine.store.ranges.of(encode_key(key)) == partition)


def pass_on(engine: ps.Engine, sender: int) -> None:
    """Send a partition's productions to the others. Nobody learns of saved batches."""
    for other in members(engine)[sender].others:
        owed = members(engine)[sender].owed(other)
        if owed is not None:
            members(engine)[sender].arrived(other, members(engine)[other].receive(owed))


def test_a_view_on_a_view_in_a_third_place_waits_for_the_batch() -> None:
    with placed(), ps.open(shop(), None, partitions=2) as engine:
        n = next(owned(engine, 0, range(20, 60)))
        docs = crossing(engine, n)[0]
        assert len(docs) == n
        engine.put("users", docs[0])
        engine.settle()
        since = engine.snapshot().position
        with cut_off(members(engine)[0]), suppress(Cut):
            engine.put_many("users", docs[1:])
        pass_on(engine, 1)
        assert engine.snapshot().view("names")[docs[0]["name"]]["n"] == n, "the view itself shows the early set"
        assert list(engine.changes("sizes", since=since)) == [], "they would follow from a batch that is not saved"
        engine.settle()
        assert list(engine.changes("sizes", since=since)) == [], "they cross with those that take them back"
        engine.put_many("users", docs[1:])
        engine.settle()
        with engine.snapshot() as snap:
            assert dict(snap.view("sizes").items()) == {n: 1}
        assert (n, 1) in {(change.group, change.new) for change in engine.changes("sizes", since=since)}


def a_span_with_another_early_set() -> None:
    """A partition takes early sets from two others, and learns that the first batch is not saved."""
    with placed(), ps.open(shop(), None, partitions=3) as engine:
        name = next(owned(engine, 2, map(str, range(100))))
        first, second = (next(owned(engine, place, range(100))) for place in (0, 1))
        since = engine.snapshot().position
        for key in (first, second):
            with cut_off(members(engine)[key != first]), suppress(Cut):
                engine.put("users", {"id": key, "name": name, "v": 1, "ts": 1})
        news = members(engine)[0].news(2)
        assert news is not None
        members(engine)[2].hear(news)
        pass_on(engine, 2)
        assert list(engine.changes("sizes", since=since)) == []
        engine.settle()
        assert list(engine.changes("sizes", since=since)) == []


def test_a_view_on_a_view_waits_for_the_end_of_a_span() -> None:
    a_span_with_another_early_set()
    bug = Bug("", "partitions.exchange.production_delay:ProductionDelay.passed", "read_spans(writer, state)", "[]")
    with planted(bug), pytest.raises(AssertionError):
        a_span_with_another_early_set()


def test_an_early_set_that_changes_no_row_may_show_later() -> None:
    app = ps.App("most")
    app.table("docs", key="id").view("most", key=(), value="v", reduce=ps.max(), production="weak")
    with placed(), ps.open(app, None, partitions=2) as engine:
        owner = engine.store.ranges.of(encode_key(()))  # type: ignore[attr-defined]
        near, far = (next(owned(engine, place, range(100))) for place in (owner, 1 - owner))
        engine.put("docs", {"id": near, "v": 10})
        engine.settle()
        since = engine.snapshot().position
        with cut_off(members(engine)[1 - owner]), suppress(Cut):
            engine.put("docs", {"id": far, "v": 5})
        assert isinstance(engine.store, PartitionedStore)
        carry, engine.store.push = engine.store.push, lambda: None
        ps.Engine(members(engine)[owner].engine).put("docs", {"id": near, "v": 1})
        assert engine.snapshot().view("most")[()] == 5
        assert list(engine.changes("most", since=since)) == []
        engine.store.push = carry
        engine.settle()
        assert [(change.old, change.new) for change in engine.changes("most", since=since)] == [(10, 1)]


# -- planted bugs


def _early_sets_count_as_saved(m: pytest.MonkeyPatch) -> None:
    for module in ("feed_reader", "store_snapshot"):
        m.setattr(f"penstock.core.reading.{module}.saved_position", lambda state, _: state.position)


def _nothing_says_what_was_taken_back(m: pytest.MonkeyPatch) -> None:
    m.setattr(exchange, "add_span", lambda writer, state, span: None)


def _a_span_ends_before_it_is_taken_back(m: pytest.MonkeyPatch) -> None:
    plain = visibility.add_span
    m.setattr(exchange, "add_span", lambda writer, state, span: plain(writer, state, (span[0], span[1] - 1)))


def _only_the_last_early_set_counts(m: pytest.MonkeyPatch) -> None:
    def last(state: StateRow, spans: Any) -> int:
        return min(state.position, max(state.told_at.values(), default=state.position + 1) - 1)

    m.setattr(feed_reader, "saved_position", last)


def _an_early_set_stays_unsaved(m: pytest.MonkeyPatch) -> None:
    plain = visibility.with_early_set
    m.setattr(f"{__name__}.shop", partial(shop, chained=False))  # a view on a view would wait for ever
    m.setattr(exchange, "with_early_set", lambda s, who, at: s if at is None else plain(s, who, at))


def _a_span_is_given_as_it_was_committed(m: pytest.MonkeyPatch) -> None:
    m.setattr(feed_reader, "next_span", lambda spans, since: None)


def _rows_are_those_of_now(m: pytest.MonkeyPatch) -> None:
    m.setattr(feed_reader, "_before", lambda part, name: {})


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    _early_sets_count_as_saved,
    _nothing_says_what_was_taken_back,
    _a_span_ends_before_it_is_taken_back,
    _only_the_last_early_set_counts,
    _an_early_set_stays_unsaved,
    _a_span_is_given_as_it_was_committed,
    _rows_are_those_of_now,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__.strip("_"))
def test_a_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        many(40)


def many(seeds: int) -> None:
    """Run this number of histories."""
    for seed in range(seeds):
        cut_puts(seed)
