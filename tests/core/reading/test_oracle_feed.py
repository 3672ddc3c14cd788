"""The changes feed: a replay over any snapshot gives the view, and an expired position raises an error."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import Limits
from penstock.core import feed_log
from tests.waiting import PATIENCE

VIEWS = ("n", "sums", "best", "index", "lengths", "words")
Doc = dict[str, Any]
Step = tuple[str, Any]


def app() -> ps.App:
    out = ps.App("feed")
    docs = out.table("docs", key="id")
    n = docs.view("n", key="g", reduce=ps.count())
    docs.view("sums", key="g", reduce={"s": ps.sum("v"), "m": ps.mean("v")})
    docs.view("best", key="g", reduce={"max": ps.max("v"), "n": ps.count("v")})
    docs.view("index", key="g", value="v", reduce=None)

    @n.view("lengths", reduce=ps.sum())
    def lengths(row: ps.Row) -> Any:
        yield len(str(row.key)), row.value

    @docs.view("words", reduce=ps.distinct())
    def words(doc: Doc) -> Any:
        for i in range(doc["g"] if isinstance(doc["g"], int) else 1):
            yield i, doc["v"]

    return out


def seen(engine: ps.Engine) -> tuple[int, dict[str, dict[Any, Any]]]:
    with engine.snapshot() as snap:
        return snap.position, {view: dict(snap.view(view).items()) for view in VIEWS}


def replayed(start: dict[str, dict[Any, Any]], changes: Any) -> dict[str, dict[Any, Any]]:
    """Apply the changes to the rows. Each must begin at the stored row."""
    out = {view: dict(rows) for view, rows in start.items()}
    done: set[tuple[int, str, Any]] = set()
    position = 0
    for change in changes:
        assert change.position >= position, "positions ascend"
        position = change.position
        assert (position, change.view, change.group) not in done, "one change a group and commit"
        done.add((position, change.view, change.group))
        rows = out[change.view]
        assert rows.get(change.group, ps.ABSENT) == change.old
        assert (change.old is ps.ABSENT) != (change.new is ps.ABSENT) or change.old != change.new
        if change.new is ps.ABSENT:
            del rows[change.group]
        else:
            rows[change.group] = change.new
    return out


values = st.sampled_from([0, 1, 2, -1, 0.5, 1.5, 1 << 70])
docs = st.builds(
    lambda i, g, v: {"id": i, "g": g, "v": v}, st.integers(0, 60), st.sampled_from([0, 1, 2, "a", "b" * 500]), values
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(docs, min_size=1, max_size=60)),
        st.tuples(st.just("delete"), st.integers(0, 60)),
    ),
    min_size=1,
    max_size=12,
)


def do(engine: ps.Engine, step: Step) -> None:
    if step[0] == "put":
        engine.put_many("docs", step[1])
    else:
        engine.delete("docs", step[1])


@given(steps)
def test_from_any_position_it_leads_to_the_view(history: list[Step]) -> None:
    with ps.open(app(), None, limits=Limits(fold_least=64)) as engine:
        points = [seen(engine)]
        for step in history:
            do(engine, step)
            points.append(seen(engine))
        last = points[-1][1]
        for position, rows in points:
            assert replayed(rows, engine.changes(since=position)) == last
        assert replayed({view: {} for view in VIEWS}, engine.changes()) == last
        assert replayed({view: {} for view in VIEWS}, engine.changes(initial=True)) == last


@settings(max_examples=50)
@given(steps, steps)
def test_it_goes_on_from_initial(before: list[Step], after: list[Step]) -> None:
    with ps.open(app(), None) as engine:
        for step in before:
            do(engine, step)
        following = engine.changes(initial=True, follow=True)
        out: dict[str, dict[Any, Any]] = {view: {} for view in VIEWS}
        rows = sum(map(len, seen(engine)[1].values()))
        assume(rows)  # a generator starts at its first `next`
        out = replayed(out, [next(following) for _ in range(rows)])
        for step in after:
            do(engine, step)
        more = len(list(engine.changes(since=seen_position(engine, before))))
        out = replayed(out, [next(following) for _ in range(more)])
        assert out == seen(engine)[1]


def seen_position(engine: ps.Engine, before: list[Step]) -> int:
    """Return the position after the first part of a history, from a store that took only that part."""
    with ps.open(app(), None) as other:
        for step in before:
            do(other, step)
        return seen(other)[0]


def test_views_are_named(place: Path | None) -> None:
    with ps.open(app(), place) as engine:
        engine.put("docs", {"id": 1, "g": "a", "v": 1})
        assert {c.view for c in engine.changes("n", "index")} == {"n", "index"}
        assert [c.data() for c in engine.changes("n")] == [{"view": "n", "group": "a", "new": 1, "position": 1}]
        with pytest.raises(ps.UnknownName, match="nn"):
            list(engine.changes("nn"))


def test_it_is_there_after_a_reopening(tmp_path: Path) -> None:
    with ps.open(app(), tmp_path / "s") as engine:
        engine.put("docs", {"id": 1, "g": "a", "v": 1})
    with ps.open(app(), tmp_path / "s") as engine:
        engine.put("docs", {"id": 2, "g": "a", "v": 1})
        assert [(c.old, c.new, c.position) for c in engine.changes("n")] == [(ps.ABSENT, 1, 1), (1, 2, 2)]


def test_no_more_is_kept_than_asked(place: Path | None) -> None:
    with ps.open(app(), place, changes=50) as engine:
        points = []
        for i in range(200):
            engine.put("docs", {"id": i, "g": "a", "v": i})
            points.append(seen(engine))
        assert len(list(engine.changes())) < 50 + 2 * len(VIEWS)
        with pytest.raises(ps.PositionExpired) as caught:
            list(engine.changes(since=points[0][0]))
        oldest = caught.value.oldest
        assert str(oldest) in str(caught.value)
        rows = dict(points)[oldest]
        assert replayed(rows, engine.changes(since=oldest)) == points[-1][1]
        with pytest.raises(ps.PositionExpired):
            list(engine.changes(since=oldest - 1))


def test_bytes_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_log, "BYTES", 4_000)
    with ps.open(app(), None) as engine:
        for i in range(200):
            engine.put("docs", {"id": i, "g": "a", "v": i})
        assert 0 < len(list(engine.changes("n"))) < 40


def test_without_one_there_is_none(place: Path | None) -> None:
    with ps.open(app(), place, changes=0) as engine:
        engine.put("docs", {"id": 1, "g": "a", "v": 1})
        assert list(engine.changes()) == []


def test_what_was_not_fed_is_not_passed_over(store_path: Path) -> None:
    def put(ids: range, changes: int) -> int:
        with ps.open(app(), store_path, changes=changes) as engine:
            for i in ids:
                engine.put("docs", {"id": i, "g": "a", "v": i})
            return seen(engine)[0]

    fed = put(range(30), 1_000)
    missed = put(range(30, 60), 0)
    with ps.open(app(), store_path, readonly=True) as reader:
        with pytest.raises(ps.PositionExpired, match=f"the oldest that can be followed from is {missed}"):
            reader.changes(since=fed)
        assert list(reader.changes(since=missed)) == []
    with ps.open(app(), store_path) as engine:
        rows = seen(engine)[1]
    put(range(60, 90), 1_000)
    with ps.open(app(), store_path) as engine:
        assert replayed(rows, engine.changes(since=missed)) == seen(engine)[1]
    put(range(90, 91), 300)  # rows from before are dropped, so no reader can follow from there
    with ps.open(app(), store_path, readonly=True) as reader:
        assert next(reader.changes()).position > missed
        with pytest.raises(ps.PositionExpired):
            reader.changes(since=missed - 1)


def test_a_position_ahead_is_refused() -> None:
    with ps.open(app(), None) as engine, pytest.raises(ps.PositionAhead, match="position 0"):
        list(engine.changes(since=4))


def test_closing_ends_who_follows() -> None:
    engine = ps.open(app(), None)
    got: list[ps.Change] = []
    follower = threading.Thread(target=lambda: got.extend(engine.changes("n", follow=True)))
    follower.start()
    engine.put("docs", {"id": 1, "g": "a", "v": 1})
    following = engine.changes("n", follow=True)
    assert next(following).new == 1
    engine.close()
    follower.join(30)
    assert not follower.is_alive()


_READER = """
import sys
import penstock as ps
from tests.core.reading.test_oracle_feed import app
with ps.open(app(), sys.argv[1], readonly=True) as engine:
    for change in engine.changes("n", follow=True, initial=True):
        print(change.group, change.new, flush=True)
        if change.new == 20:
            break
"""


def test_another_process_follows(tmp_path: Path) -> None:
    with ps.open(app(), tmp_path / "s") as engine:
        engine.put("docs", {"id": 0, "g": "a", "v": 1})
        command = [sys.executable, "-c", _READER, str(tmp_path / "s")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "a 1\n"
            for i in range(1, 20):
                engine.put("docs", {"id": i, "g": "a", "v": 1})
                assert child.stdout.readline() == f"a {i + 1}\n"
            assert child.wait(PATIENCE) == 0
