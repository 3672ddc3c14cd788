import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from penstock.cache import UnknownName
from penstock.views.app import App
from penstock.views.definitions import Merge, Table, View
from penstock.views.field_expressions import field
from penstock.views.view_maps import FieldMap, Key
from tests.views.stand_ins import count, refused, total

# Tables


def test_a_table(app: App) -> None:
    orders = app.table("orders", key=("shop", "order.number"), ts="at", merge="patch", tombstones=60, sample=Path("s"))
    assert (orders.app, orders.name, orders.order, orders.tables) == (app, "orders", 0, (orders,))
    assert orders.key == Key((("shop",), ("order", "number")), single=False)
    assert (orders.ts, orders.broker_ts, orders.has_ts) == (("at",), False, True)
    assert (orders.merge, orders.tombstones, orders.sample) == (Merge.PATCH, 60, "s")


def test_a_plain_table(app: App) -> None:
    plain = app.table("plain", key="id")
    assert plain.key == Key((("id",),), single=True)
    assert (plain.ts, plain.broker_ts, plain.has_ts) == (None, False, False)
    assert (plain.merge, plain.tombstones, plain.sample) == (Merge.REPLACE, None, None)


def test_the_ts_of_the_broker(app: App) -> None:
    assert app.table("events", key="id", ts="@kafka").describe()["broker_ts"] is True
    logs = app.table("logs", key="id", ts="@timestamp")
    assert (logs.ts, logs.broker_ts) == (("@timestamp",), False)


def test_a_merge_may_be_written_as_itself(app: App) -> None:
    assert app.table("t", key="id", merge=Merge.PATCH).merge is Merge.PATCH


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"key": ""}, ["key= of table 'users'", "dots"]),
        ({"key": "a..b"}, ["key=", "'a..b'"]),
        ({"key": ()}, ["key= of table 'users' is empty", "name the field"]),
        ({"key": ["id"]}, ["key=", "tuple of paths"]),
        ({"key": None}, ["key= of table 'users' is None"]),
        ({"key": ("a", 7)}, ["part 2 of key=", "7"]),
        ({"key": field("id")}, ["key=", "write a path"]),
        ({"ts": 5}, ["ts= of table 'users' is 5", "@kafka"]),
        ({"ts": ""}, ["ts= of table 'users'"]),
        ({"ts": ("a", "b")}, ["ts="]),
        ({"merge": "keep"}, ["merge=", "'keep'", "'replace'", "'patch'"]),
        ({"merge": None}, ["merge="]),
        ({"merge": []}, ["merge="]),
        ({"tombstones": 5}, ["tombstones=", "ts="]),
        ({"ts": "ts", "tombstones": -1}, ["tombstones=", "-1"]),
        ({"ts": "ts", "tombstones": True}, ["tombstones="]),
        ({"ts": "ts", "tombstones": math.nan}, ["tombstones="]),
        ({"ts": "ts", "tombstones": math.inf}, ["tombstones="]),
        ({"ts": "ts", "tombstones": "1d"}, ["tombstones="]),
        ({"sample": 7}, ["sample= of table 'users' is 7"]),
    ],
    ids=str,
)
def test_an_invalid_table_is_refused(app: App, wrong: dict[str, Any], parts: list[str]) -> None:
    with refused(*parts):
        app.table("users", **{"key": "id", **wrong})
    assert app.names() == ()


BAD_NAMES: list[Any] = ["", "a b", "a/b", "größe", "a\n", "x" * 101, "users(id)", None, 7, b"users"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_bad_name(app: App, name: Any) -> None:
    with refused("can't name a table", "letters"):
        app.table(name, key="id")
    with refused("can't name an app"):
        App(name)


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 100, "7", "a.", "..."])
def test_a_good_name(app: App, users: Table, name: str) -> None:
    assert users.view(name, key="id", reduce=count()).name == name
    assert app.table(name[:99] + "2", key="id").name == name[:99] + "2"


def test_tables_and_views_share_one_namespace(app: App, users: Table) -> None:
    users.view("ages", key="age", reduce=count())
    with refused("table named 'users' already", "tables, streams, views and joins share"):
        app.table("users", key="id")
    with refused("view named 'ages' already"):
        app.table("ages", key="id")
    with refused("table named 'users' already"):
        users.view("users", key="age", reduce=count())
    with refused("view named 'ages' already"):

        @users.view(reduce=count())
        def ages(user: Any) -> Iterator[Any]:
            yield user["age"]

    assert app.names() == ("users", "ages")


# Views of views


def test_a_view_of_a_view(app: App, users: Table) -> None:
    names = users.view("names", key="name", reduce={"n": count(), "total": total("amount")})

    @names.view(reduce=count())
    def by_length(row: Any) -> Iterator[Any]:
        yield len(row.key), row.value

    sizes = names.view("sizes", key="value.n", value="value", where=field("value.n") > 1, reduce=total("total"))
    last = by_length.view("last", key="key", value="value", reduce=total())
    assert [view.source for view in app.views()] == [users, names, names, by_length]
    assert last.tables == sizes.tables == (users,)
    assert [view.order for view in app.views()] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"key": "name"}, ["'name' of the view 'names'", "value.name"]),
        ({"key": ("key", "n")}, ["value.n"]),
        ({"key": "key.name"}, ["'key.name'", "a key has no fields", "'key.0'"]),
        ({"key": "key.00"}, ["'key.00'", "a key has no fields"]),
        ({"value": "total"}, ["value.total"]),
        ({"where": "paid"}, ["value.paid"]),
        ({"where": ~(field("key") > 1) | field("n")}, ["value.n"]),
        ({"reduce": total("total")}, ["value.total"]),
        ({"key": "value.totl"}, ["whose fields are n, total", "did you mean 'value.total'"]),
        ({"value": "value", "reduce": total("totals")}, ["'value.totals'", "did you mean 'value.total'"]),
    ],
    ids=str,
)
def test_a_view_of_a_view_reads_key_and_value(users: Table, wrong: dict[str, Any], parts: list[str]) -> None:
    names = users.view("names", key="name", reduce={"n": count(), "total": total("amount")})
    with refused("view 'v' reads", *parts):
        names.view("v", **{"key": "key", "reduce": count(), **wrong})


def test_a_view_of_a_view_reads_parts_of_keys(users: Table) -> None:
    pairs = users.view("pairs", key=("city", "name"), reduce=count())
    assert pairs.view("v", key="key.1", value="value", reduce=total()).source is pairs
    with refused("view 'w' reads 'key.2' of the view 'pairs'", "2 parts"):
        pairs.view("w", key="key.2", reduce=count())
    names = users.view("names", key="name", reduce=count())
    assert names.view("x", key="key.0.1", reduce=count()).source is names


def test_a_value_of_unknown_form_may_be_read_into(users: Table) -> None:
    names = users.view("names", key="name", reduce=total("amount"))
    assert names.view("v", key="value.any.where", reduce=count()).source is names


def test_a_view_on_another_app_is_refused(app: App, users: Table) -> None:
    other = App("other")
    view = View(other, "v", 0, users, FieldMap(Key.of("id", "key=")), (count(),), None)
    with refused("view 'v' is on 'users'", r"App\('other'\) does not have"):
        other.add(view)


# Apps


def test_names_and_order(app: App, users: Table) -> None:
    ages = users.view("ages", key="age", reduce=count())
    orders = app.table("orders", key="id")
    of_ages = ages.view("of_ages", key="value", reduce=count())
    assert app.names() == ("users", "ages", "orders", "of_ages")
    assert app.tables() == (users, orders)
    assert app.views() == (ages, of_ages)
    assert [d.order for d in (users, ages, orders, of_ages)] == [0, 1, 2, 3]
    assert all(view.source.order < view.order for view in app.views())


def test_lookup(app: App, users: Table) -> None:
    ages = users.view("ages", key="age", reduce=count())
    assert app.lookup("users") is app.table_of("users") is users
    assert app.lookup("ages") is app.view_of("ages") is ages


@pytest.mark.parametrize(
    ("method", "name", "nearest"),
    [
        ("lookup", "usres", "users"),
        ("lookup", "USERS", "users"),
        ("lookup", "Age", "ages"),
        ("lookup", "zzzzz", None),
        ("table_of", "user", "users"),
        ("table_of", "ages", "users"),
        ("view_of", "ags", "ages"),
        ("view_of", "users", None),
    ],
)
def test_the_error_for_an_unknown_name_gives_the_nearest(
    app: App, users: Table, method: str, name: str, nearest: str | None
) -> None:
    users.view("ages", key="age", reduce=count())
    with pytest.raises(UnknownName) as caught:
        getattr(app, method)(name)
    assert (caught.value.name, caught.value.nearest) == (name, nearest)
    assert (nearest or "App.names()") in str(caught.value)


@pytest.mark.parametrize("method", ["lookup", "table_of", "view_of"])
@pytest.mark.parametrize("name", [None, 7, [1]])
def test_a_name_that_is_no_text(app: App, method: str, name: Any) -> None:
    with refused("by its name", "write its name"):
        getattr(app, method)(name)


# Descriptions


def test_descriptions_are_plain_data(app: App) -> None:
    users = app.table("users", key=("a", "b.c"), ts="at", merge="patch", tombstones=1.5, sample="s.jsonl")
    spend = users.view(
        "spend", key=("x", "y.z"), value="v.w", where=field("ok") & (field("n") > 2**70), reduce={"t": total("q")}
    )
    described = app.describe()
    assert msgpack.unpackb(msgpack.packb(described)) == described
    assert described == {"app": "shop", "definitions": [users.describe(), spend.describe()]}
    assert users.describe() == {
        "kind": "table",
        "name": "users",
        "key": {"paths": [["a"], ["b", "c"]], "single": False},
        "ts": ["at"],
        "broker_ts": False,
        "merge": "patch",
        "tombstones": 1.5,
    }
    assert spend.describe() == {
        "kind": "view",
        "name": "spend",
        "source": "users",
        "map": {
            "by": "fields",
            "key": {"paths": [["x"], ["y", "z"]], "single": False},
            "value": ["v", "w"],
            "where": {
                "is": "and",
                "left": {"is": "true", "path": ["ok"]},
                "right": {"is": ">", "path": ["n"], "value": ["int", hex(2**70)]},
            },
        },
        "reducers": [{"reducer": "total", "field": ["q"]}],
        "fields": ["t"],
    }


def test_definitions_never_change(users: Table) -> None:
    view = users.view("v", key="id", reduce=count())
    for thing in (users, view):
        with pytest.raises(AttributeError):
            thing.name = "other"  # type: ignore[misc]
        assert not hasattr(thing, "__dict__")
    assert users == users
    assert users != App("other").table("users", key="id", ts="ts")
    assert len({users, view}) == 2


def test_reprs_do_not_include_each_other(app: App, users: Table) -> None:
    view = users.view("v", key="id", reduce=count())
    assert repr(app) == "App('shop')"
    assert "App" not in repr(users)
    assert "Table" not in repr(view)
