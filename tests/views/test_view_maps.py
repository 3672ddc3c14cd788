from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import msgpack
import pytest

from penstock.views.app import App
from penstock.views.definitions import Table, View
from penstock.views.field_expressions import as_where, field
from penstock.views.view_maps import FieldMap, FunctionMap, Key, field_map_from
from tests.views.stand_ins import Fold, count, named, refused, total

# Field views


def test_a_field_view(app: App, users: Table) -> None:
    reduce = {"n": count(), "total": total("paid.amount")}
    view = users.view("spend", key=("country", "address.city"), where=field("paid.amount") > 0, reduce=reduce)
    assert isinstance(view, View)
    assert (view.app, view.name, view.order, view.source, view.tables) == (app, "spend", 1, users, (users,))
    assert view.map == FieldMap(Key((("country",), ("address", "city")), single=False), None, field("paid.amount") > 0)
    assert view.fields == ("n", "total")
    assert view.reducers == tuple(reduce.values())


def test_one_reducer_has_no_fields(users: Table) -> None:
    view = users.view("n", key="city", value="amount", where="paid", reduce=total())
    assert (view.fields, view.reducers) == (None, (total(),))
    assert isinstance(view.map, FieldMap)
    assert view.map.where == as_where("paid")


def test_no_key_parts_are_one_group_for_all(users: Table) -> None:
    view = users.view("all", key=(), reduce=count())
    assert isinstance(view.map, FieldMap)
    assert view.map.key == Key((), single=False)


def test_the_path_that_a_reducer_reads() -> None:
    whole, part = FieldMap(Key.of("g", "key=")), FieldMap(Key.of("g", "key="), ("order", "lines"))
    assert whole.path_of(None) is None
    assert whole.path_of(("a", "b")) == ("a", "b")
    assert part.path_of(None) == ("order", "lines")
    assert part.path_of(("a", "b")) == ("order", "lines", "a", "b")


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"key": 7}, ["key= of view 'v'", "7"]),
        ({"key": ["a"]}, ["key= of view 'v'", "tuple of paths"]),
        ({"key": "a..b"}, ["key= of view 'v'"]),
        ({"value": ("a",)}, ["value= of view 'v'"]),
        ({"value": "."}, ["value= of view 'v'"]),
        ({"where": True}, ["where= is True", "ps.field"]),
        ({"where": lambda doc: True}, ["where=", "function view"]),
        ({"where": "a."}, ["where="]),
        ({"reduce": {}}, ["reduce= of view 'v' is empty"]),
        ({"reduce": {"n": None}}, ["field 'n' of view 'v' has no reducer", r"ps\.count\(\)"]),
        ({"reduce": count}, ["the function count", "call"]),
        ({"reduce": sum}, ["the function sum", "call"]),
        ({"reduce": Fold}, ["the function Fold"]),
        ({"reduce": "count"}, ["'count'", r"ps\.count\(\)"]),
        ({"reduce": [count()]}, ["dict of them"]),
        ({"reduce": {7: count()}}, ["a field named 7", "text"]),
        ({"reduce": {"": count()}}, ["a field named ''"]),
        ({"reduce": {"a.b": count()}}, ["'a.b'", "without dots"]),
        ({"reduce": {"x" * 101: count()}}, ["100 characters"]),
        ({"reduce": {"\ud800": count()}}, ["a field named"]),
        ({"reduce": total()}, ["view 'v'", "not told what to read", "value='amount'"]),
        ({"reduce": {"n": count(), "t": total()}}, ["not told what to read"]),
    ],
    ids=named,
)
def test_an_invalid_field_view_is_refused(app: App, users: Table, wrong: dict[str, Any], parts: list[str]) -> None:
    with refused(*parts):
        users.view("v", **{"key": "city", "reduce": count(), **wrong})
    assert app.names() == ("users",)


def test_a_field_view_without_a_name(users: Table) -> None:
    nameless: Any = users.view
    with refused("needs a name"):
        nameless(key="city", reduce=count())


# Function views


def test_a_function_view_is_named_after_its_function(app: App, users: Table) -> None:
    @users.view(reduce=count())
    def initials(user: Any) -> Iterator[Any]:
        yield user["name"][0]

    assert isinstance(initials, View)
    assert app.lookup("initials") is initials
    assert isinstance(initials.map, FunctionMap)
    assert list(initials({"name": "Sue"}) or ()) == ["S"]


def test_a_function_view_with_its_name_given(app: App, users: Table) -> None:
    by_lambda = users.view("by-initial", reduce=count())(lambda user: [user["name"][0]])
    assert (by_lambda.name, by_lambda.order) == ("by-initial", 1)

    @users.view("other", reduce=total())
    def ignored(user: Any) -> None:
        return None

    assert app.names() == ("users", "by-initial", "other")
    assert ignored({}) is None


def test_an_object_that_can_be_called_is_a_map(users: Table) -> None:
    class Initial:
        def __call__(self, user: Any) -> Iterator[Any]:
            yield user["name"][0]

    assert users.view(reduce=count())(Initial()).name == "Initial"
    assert users.view("p", reduce=count())(partial(lambda n, user: [n], 7)).describe()["map"] == {
        "by": "function",
        "function": "partial",
    }


def test_a_reducer_of_a_function_view_needs_no_field(users: Table) -> None:
    assert users.view("v", reduce=total())(lambda user: [(1, 2)]).reducers == (total(),)


def test_fields_in_a_function_view_are_refused_with_the_reason(users: Table) -> None:
    anything: Any = users.view
    with refused("value= reads fields", "key=", "yield"):
        anything("v", value="amount", reduce=count())
    with refused("where= reads fields", "key=", "leaves out"):
        anything(where="paid", reduce=count())


def test_a_decorator_without_parentheses(users: Table) -> None:
    bare: Any = users.view
    with refused("got initials where its name goes", "reduce="):

        @bare
        def initials(user: Any) -> Iterator[Any]:
            yield user["name"][0]


async def _async(user: Any) -> None: ...


async def _async_yields(user: Any) -> AsyncIterator[Any]:
    yield user


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (7, ["no function"]),
        (None, ["no function"]),
        (field("a"), ["no function"]),
        (_async, ["'_async' is async", "plain `def`"]),
        (_async_yields, ["is async"]),
        (lambda *, user=None: [], ["document alone", "one parameter"]),
        (lambda a, b: [], ["one parameter"]),
        (lambda *, a: [], ["one parameter"]),
    ],
    ids=named,
)
def test_an_invalid_map_is_refused(users: Table, function: Any, parts: list[str]) -> None:
    with refused(*parts):
        users.view("v", reduce=count())(function)


@pytest.mark.parametrize("function", [lambda a, b=1: [a], lambda *a: a, iter, str.split], ids=named)
def test_maps_with_more_parameters_that_need_not_be_given(users: Table, function: Any) -> None:
    assert users.view("v", reduce=count())(function).name == "v"


def test_a_lambda_needs_a_name(users: Table) -> None:
    with refused("'<lambda>' can't name a view"):
        users.view(reduce=count())(lambda user: [1])


def test_a_field_view_is_no_function(users: Table) -> None:
    with refused("'v' has fields, not a function"):
        users.view("v", key="id", reduce=count())({})


# Descriptions


@pytest.mark.parametrize(
    "written",
    [
        {"key": "a.b"},
        {"key": ()},
        {"key": ("a", "b.c"), "value": "v"},
        {"key": "a", "where": ~(field("n") >= 0.5) | field("ok")},
    ],
    ids=named,
)
def test_a_field_map_is_created_from_its_description(users: Table, written: dict[str, Any]) -> None:
    view = users.view("v", **written, reduce=count())
    assert field_map_from(msgpack.unpackb(msgpack.packb(view.map.describe()))) == view.map


def test_a_function_is_described_by_its_own_name(users: Table) -> None:
    view = users.view("v", reduce=count())(_make)
    assert view.describe()["map"] == {"by": "function", "function": "_make"}


def _make(user: Any) -> list[Any]:
    return [user]
