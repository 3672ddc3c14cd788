"""Accept reducers, functions like CouchDB's, and None for an index in `reduce=`, and refuse invalid reducers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import pytest

from penstock.views.app import App
from penstock.views.definitions import Table
from penstock.views.reducer_protocols import TS, Cell, Ints, Leaves, Need, Path, State, Values
from penstock.views.view_maps import ReduceFunction
from tests.views.stand_ins import Fold, count, refused, total


@dataclass(frozen=True)
class Beside:
    """A tree cell that reads more than its field."""

    field: Path | None
    beside: tuple[Path, ...]
    need: Need = Need.VALUE
    lanes: int = 0

    def fold(self, leaves: Leaves) -> Values:
        raise NotImplementedError

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Values:
        raise NotImplementedError

    def failed(self, partial: Any) -> str | None:
        return None

    def state(self, partial: Any) -> list[Any] | None:
        return None

    def merge(self, a: State, b: State) -> State:
        return a


def newest(field: str | None, *beside: Path) -> Fold:
    path = None if field is None else tuple(field.split("."))
    cells: Sequence[Cell] = (Beside(path, beside),)
    return Fold("newest", path, cells)


def rows(values: Any, rereduce: bool) -> Any:
    return sum(values) if rereduce else len(values)


def by_key(keys: Any, values: Any, rereduce: bool = False) -> Any:
    return len(values)


class Object:
    def __call__(self, values: Any, rereduce: bool) -> Any:
        return len(values)


# Functions


@pytest.mark.parametrize(
    ("function", "keys", "name"),
    [
        (rows, False, "rows"),
        (by_key, True, "by_key"),
        (lambda values, rereduce: values, False, "<lambda>"),
        (lambda k, v, r, /: v, True, "<lambda>"),
        (Object(), False, "Object"),
        (functools.partial(lambda k, v, r: v, 7), False, "partial"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_function_in_the_place_of_a_reducer(users: Table, function: Any, keys: bool, name: str) -> None:
    view = users.view("v", key="city", value="amount", reduce={"n": count(), "own": function})
    assert view.reducers == (count(), ReduceFunction(function, keys))
    assert view.fields == ("n", "own")
    described = msgpack.unpackb(msgpack.packb(view.describe()))["reducers"][1]
    assert described == {"reducer": "function", "field": None, "function": name, "keys": keys}
    alone = users.view("alone", reduce=function)(lambda user: [1])
    assert (alone.reducers, alone.fields) == ((ReduceFunction(function, keys),), None)


def test_functions_are_equal_by_identity() -> None:
    one, same, other = ReduceFunction(rows, False), ReduceFunction(rows, False), ReduceFunction(by_key, True)
    assert len({one, same, other}) == 2
    assert one != rows


def with_default(values: Any, n: int = 7) -> Any:
    return None


def one_more(keys: Any, values: Any, rereduce: bool, more: Any) -> Any:
    return None


def spread(values: Any, rereduce: bool, *rest: Any) -> Any:
    return None


def named(values: Any, rereduce: bool, *, how: Any) -> Any:
    return None


async def waiting(values: Any, rereduce: bool) -> Any:
    return None


def yielding(values: Any, rereduce: bool) -> Any:
    yield None


@pytest.mark.parametrize("function", [with_default, one_more, spread, named, sum, max, len, count, Fold, Object])
def test_a_function_of_other_parameters_is_refused(app: App, users: Table, function: Any) -> None:
    name = function.__name__
    with refused(f"view 'v' is the function {name}", "call a reducer", r"\(values, rereduce\) or \(keys, values,"):
        users.view("v", key="city", value="amount", reduce=function)
    assert app.names() == ("users",)


@pytest.mark.parametrize("function", [waiting, yielding])
def test_a_function_that_gives_no_result(users: Table, function: Any) -> None:
    with refused(f"field 'n' of view 'v' is {function.__name__}, which is no plain function", "`return`"):
        users.view("v", key="city", value="amount", reduce={"n": function})


def test_a_reduce_function_needs_a_value(users: Table) -> None:
    with refused("view 'v' has a reducer that is not told what to read", "value='amount'"):
        users.view("v", key="city", reduce=rows)
    ages = users.view("ages", key="age", reduce=count())
    assert ages.view("own", key="key", value="value", reduce=rows).reducers == (ReduceFunction(rows, False),)


# Indexes, and stored contributions


def test_an_index(users: Table) -> None:
    view = users.view("by-city", key="city", reduce=None)
    assert (view.index, view.reducers, view.fields) == (True, (), None)
    assert view.describe()["reducers"] == []
    own = users.view("own", reduce=None)(lambda user: [("a", 1)])
    assert own.index
    assert not users.view("n", key="city", reduce=count()).index


def test_no_reducer_is_no_index(users: Table) -> None:
    silent: Any = users.view
    with refused("view 'v' has no reducer", r"reduce=ps\.count\(\)", "reduce=None for a plain index"):
        silent("v", key="city")
    with refused("view '.named after its function.' has no reducer"):
        silent()


def test_sources_stores_contributions(users: Table) -> None:
    kept = users.view("kept", key="city", reduce=total("amount"), sources=True)
    own = users.view("own", reduce=count(), sources=True)(lambda user: [1])
    other = users.view("other", key="city", reduce=total("amount"), sources=False)
    assert [view.sources for view in (kept, own, other)] == [True, True, False]
    assert [view.describe().get("sources") for view in (kept, own, other)] == [True, True, None]
    anything: Any = 1
    with refused("sources= of view 'v' is 1; write True or False"):
        users.view("v", key="city", reduce=count(), sources=anything)


# Additional fields of a reducer


def test_ordering_by_ts_needs_a_ts(app: App) -> None:
    plain = app.table("plain", key="id")
    for name, ts in (("own", "at"), ("broker", "@kafka")):
        assert app.table(name, key="id", ts=ts).view(f"v-{name}", key="g", reduce=newest("a", TS)).reducers
    words = "view 'v' has a reducer that goes by ts, and what is in 'plain' has none"
    with refused(words, "by='at'", "a table with ts="):
        plain.view("v", key="g", reduce={"n": count(), "last": newest("a", TS)})
    with refused(words):
        plain.view("v", reduce=newest(None, TS))(lambda doc: [1])
    assert plain.view("v", key="g", reduce=newest("a", ("at",))).index is False


def test_the_rows_of_a_view_have_no_ts(app: App) -> None:
    stamped = app.table("stamped", key="id", ts="at")
    ages = stamped.view("ages", key="age", reduce=count())
    with refused("goes by ts, and what is in 'ages' has none"):
        ages.view("v", key="key", value="value", reduce=newest(None, TS))


def test_additional_fields_are_read_from_rows_too(app: App, users: Table) -> None:
    ages = users.view("ages", key="age", reduce={"n": count(), "t": total("amount")})
    assert ages.view("good", key="key", reduce=newest("value.n", ("value", "t"))).name == "good"
    with refused("reads 'at' of the view 'ages'", r"value\.at"):
        ages.view("v", key="key", reduce=newest("value.n", ("at",)))
    with refused(r"reads 'value\.m' of the view 'ages'", r"did you mean 'value\.n'"):
        ages.view("v", key="key", value="value", reduce=newest("n", ("m",)))
