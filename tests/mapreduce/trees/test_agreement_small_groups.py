"""A few contributions to groups without nodes: item by item they give the same row bytes as in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import Limits, MemoryStore
from penstock.engine import Core, Engine, open_on
from penstock.mapreduce import rows_db, small_trees
from penstock.mapreduce.trees.small_groups import SmallGroups
from tests.harness.planting import Bug
from tests.mapreduce.reducers.histories import all_ints, floats, nulls
from tests.mapreduce.reducers.tree_shapes import few, values_of
from tests.mapreduce.trees.tree_worlds import tied_hashes

_CAPACITY = 4
_KEYS = st.one_of(st.integers(1, 4), st.sampled_from(["a", "b", 1 << 63, [1, "x"]]))
_GROUPS = st.sampled_from(["A", "A", "B", None, 7, "x" * 600])
_NUMBERS = st.one_of(few, all_ints, floats, nulls)
Batch = list[tuple[Any, dict[str, Any] | None]]


class _Longest:
    """A user's monoid that fails on one value."""

    zero = ""

    def lift(self, value: Any) -> str:
        if value == 2:
            raise ValueError("2")
        return repr(value)

    def merge(self, a: str, b: str) -> str:
        return max(a, b, key=lambda text: (len(text), text))


def _letters(values: list[Any], rereduce: bool) -> int:
    return sum(values if rereduce else [len(repr(value)) for value in values])


def _app() -> ps.App:
    app = ps.App("few")
    users = app.table("users", key="id", ts="ts")
    ends = {"least": ps.min("v"), "top": ps.top(2, "v"), "first": ps.first("v"), "last": ps.last("v", by="w")}
    users.view("ends", key="g", reduce={**ends, "n": ps.count(), "sum": ps.sum("w")}).view(
        "highest", key=(), value="value.least", reduce=ps.max()
    )
    users.view("most", key="g", value="w", reduce=ps.max())
    users.view("kinds", key="g", reduce={"kinds": ps.distinct("v"), "some": ps.collect(2, "v")})
    users.view("middle", key="g", reduce={"middle": ps.quantiles([0.5], "w"), "var": ps.variance("w")})
    users.view("own", key="g", value="v", reduce={"longest": ps.monoid(_Longest()), "letters": _letters})
    users.view("kept", key="g", value="w", reduce=ps.sum(), sources=True)

    @users.view("twice", reduce={"most": ps.max(), "kinds": ps.distinct(), "n": ps.count()})
    def _(doc: Any) -> Iterator[Any]:
        yield doc.get("g"), doc.get("w")
        yield doc.get("g"), doc.get("v")
        yield "all", None

    return app


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Draw batches of documents and deletions."""
    values = draw(values_of)
    documents = st.one_of(
        st.fixed_dictionaries({"g": _GROUPS}, optional={"v": values, "w": _NUMBERS}), st.sampled_from([None])
    )
    return draw(st.lists(st.lists(st.tuples(_KEYS, documents), min_size=1, max_size=3), min_size=1, max_size=8))


def _rows(core: Core) -> dict[str, dict[bytes, bytes]]:
    with core.store.read() as reader:
        return {name: dict(reader.scan(rows_db(view.number))) for name, view in core.views.items()}


def _columns(*_: object) -> None:
    """Leave the decision to the columns."""


def _put(engine: Engine, batch: Batch, now: int) -> None:
    with engine.batch() as own:
        for key, doc in batch:
            if doc is None:
                own.delete("users", tuple(key) if isinstance(key, list) else key, ts=now)
            else:
                own.put("users", {"id": key, "ts": now, **doc})


def _agree(history: list[Batch]) -> int:
    """Run a history through both forms and compare. Return the number of batches that were processed item by item."""
    taken = 0
    fold = SmallGroups.fold

    def counted(self: SmallGroups, *given: Any) -> Any:
        nonlocal taken
        found = fold(self, *given)
        taken += found is not None
        return found

    with small_trees(_CAPACITY):
        (one, mine), (other, yours) = (open_on(_app(), MemoryStore(), Limits(), 7) for _ in range(2))
        for now, batch in enumerate(history, -1):
            with patch.object(SmallGroups, "fold", counted):
                _put(one, batch, now)
            with patch.object(SmallGroups, "fold", _columns):
                _put(other, batch, now)
            assert _rows(mine) == _rows(yours)
        assert one.digest() == other.digest()
        assert mine.state == yours.state
    return taken


@given(histories())
def test_rows_are_those_that_columns_make(history: list[Batch]) -> None:
    _agree(history)


@given(histories())
def test_rows_are_those_that_columns_make_where_hashes_tie(history: list[Batch]) -> None:
    with tied_hashes():
        _agree(history)


def _some() -> list[Batch]:
    """Return documents that are added, changed, moved and deleted, in groups that outgrow their row."""
    docs: list[dict[str, Any]] = [
        {"g": "A", "v": 3, "w": 1},
        {"g": "A", "v": "x", "w": 2.5},
        {"g": "B", "v": 1 << 70, "w": 5},
        {"g": "A", "v": 2, "w": -1},
        {"g": "x" * 600, "v": None, "w": 4},
        {"g": "A", "v": 9, "w": 1},
    ]
    keys = [1, "a", 2, [1, "x"], 3, 4]
    come: list[Batch] = [[(key, doc)] for key, doc in zip(keys, docs, strict=True)]
    tied: list[Batch] = [[(key, {"g": "C", "v": i, "w": i})] for i, key in enumerate("abcdabcd")]
    tied += [[(key, None), (key * 2, {"g": "C", "v": i, "w": i})] for i, key in enumerate("abcd", 4)]
    again: list[Batch] = [[(1, {"g": "A", "v": 3, "w": 1})], [(1, {"g": "A", "v": 1, "w": 1})]]
    go: list[Batch] = [[(4, None), (2, {"g": "A", "v": 0, "w": 0})], [(2, None)], [("a", None)], [(3, None)]]
    return [come[0], come[0], *come, *tied, *again, *go]


def test_most_of_what_comes_alone_is_taken_item_by_item() -> None:
    assert _agree(_some()) > 60


BUGS = [
    Bug(
        "few: what comes again keeps its old values",
        "mapreduce.trees.small_groups:SmallGroups._held",
        "here[at] = item",
        "here.setdefault(at, item)",
    ),
    Bug(
        "few: a source with a new ts and the same values is passed over",
        "mapreduce.trees.small_groups:SmallGroups._moving",
        "if not self._stamped and",
        "if",
    ),
    Bug(
        "few: a group that comes to have too many for its row keeps them there",
        "mapreduce.trees.small_groups:SmallGroups.fold",
        "was + len(own.come) > trees.CAPACITY",
        "was > trees.CAPACITY",
    ),
    Bug(
        "few: sources that share a hash are one",
        "mapreduce.trees.small_groups:_check_same",
        "one is None or one[1:4] != other[1:4]",
        "one is None",
    ),
    Bug(
        "few: what is taken back is added",
        "mapreduce.trees.small_groups:SmallGroups._moved",
        "moved(state, read[sign][j][which], sign)",
        "moved(state, read[sign][j][which], 1)",
    ),
    Bug(
        "few: all sources have one rank",
        "mapreduce.trees.small_groups:_leaf",
        "if any(ranks) else None",
        "if False else None",
    ),
    Bug(
        "few: a reducer that fails is not held",
        "mapreduce.trees.small_groups:SmallGroups._cell_states",
        "errors.setdefault(place, failed[at])",
        "pass",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    search: Callable[[], int] = _search_ties if "hash" in bug.name else _search
    with pytest.raises((AssertionError, ps.StoreDamaged)):
        search()


def _search() -> int:
    return _agree(_some())


def _search_ties() -> int:
    with tied_hashes():
        return _agree(_some())
