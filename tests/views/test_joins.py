"""The declaration of joins: valid forms, and refusals that name the side and the remedy."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.cache import DefinitionError
from penstock.core import described
from penstock.mapreduce import reducer_from
from penstock.views import app_from, side_views
from penstock.views.field_expressions import as_where

Shop = tuple[ps.App, Any, Any, Any]


@pytest.fixture
def shop() -> Shop:
    app = ps.App("shop")
    lines = app.table("lines", key=("order", "no"), ts="ts")
    return app, app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts"), lines


ON = {"order.customer_id": "customer.id"}


def test_a_join_of_two_sides(shop: Shop) -> None:
    app, orders, customers, _ = shop
    sold = app.join("sold", order=orders, customer=customers, on=ON)
    assert app.lookup("sold") is sold
    assert app.joins() == (sold,)
    assert [(side.name, side.source) for side in sold.sides] == [("order", orders), ("customer", customers)]
    assert sold.tables == (orders, customers)
    assert (sold.how, sold.limit) == ("inner", 10_000_000)
    view = sold.view("by_country", key="customer.country", value="order.amount", reduce=ps.sum())
    assert view.source is sold
    assert view.tables == (orders, customers)


def test_a_function_view_on_a_join(shop: Shop) -> None:
    app, orders, customers, _ = shop
    sold = app.join("sold", order=orders, customer=customers, on=ON)

    @sold.view(reduce=ps.count())
    def tiers(row: Any) -> Any:
        yield row["customer"]["tier"]

    assert tiers.source is sold
    assert [view.projection for view in side_views(sold)] == [((),), ((),)]


def test_entries_connect_sides_in_their_order(shop: Shop) -> None:
    app, orders, customers, lines = shop
    everything = app.join(
        "everything",
        line=lines,
        order=orders,
        customer=customers,
        again=customers,
        on=[
            ("order.customer_id", "customer.id"),
            ("again.x", "line.x"),
            ("line.order", "order.id"),
            ("line.c", "customer.c"),
        ],
    )
    first, steps = everything.steps()
    assert first == 1
    assert [(step.side, step.pairs) for step in steps] == [
        (2, ((("order", "customer_id"), ("id",)),)),
        (0, ((("order", "id"), ("order",)), (("customer", "c"), ("c",)))),
        (3, ((("line", "x"), ("x",)),)),
    ]


def test_a_composite_condition_and_a_filter(shop: Shop) -> None:
    app, orders, customers, _ = shop
    waiting = orders.where(ps.field("status") == "open")
    sold = app.join(
        "sold", order=waiting, customer=customers, on=[("order.a", "customer.b"), ("customer.c", "order.d.e")]
    )
    by = sold.view("by", key="customer.country", value="order.amount", reduce=ps.sum())
    order, customer = side_views(sold)
    assert (order.name, order.source) == ("sold:order", orders)
    assert order.map.describe()["key"] == {"paths": [["a"], ["d", "e"]], "single": False}
    assert customer.map.describe()["key"] == {"paths": [["b"], ["c"]], "single": False}
    assert order.map.describe()["where"] is not None
    assert customer.map.describe()["where"] is None
    assert (order.projection, customer.projection) == ((("amount",),), (("country",),))
    assert by.source is sold


def test_a_side_may_be_named_self_and_the_name_may_be_a_keyword(shop: Shop) -> None:
    app, orders, customers, _ = shop
    options: Any = {"self": orders, "customer": customers, "name": "sold"}
    sold = app.join(**options, on={"self.customer_id": "customer.id"})
    assert (sold.name, [side.name for side in sold.sides]) == ("sold", ["self", "customer"])


def test_filters_of_a_side_add_up(shop: Shop) -> None:
    _, orders, _, _ = shop
    both = orders.where("paid").where(ps.field("amount") > 5)
    assert both.condition == as_where("paid") & (ps.field("amount") > 5)


def test_a_self_join(shop: Shop) -> None:
    app, orders, _, _ = shop
    pairs = app.join("pairs", one=orders, other=orders, on={"one.next": "other.id"})
    assert pairs.tables == (orders,)


def test_a_join_and_a_view_may_be_sides(shop: Shop) -> None:
    app, orders, customers, _ = shop
    totals = orders.view("totals", key="customer_id", reduce={"n": ps.count(), "sum": ps.sum("amount")})
    sold = app.join("sold", order=orders, customer=customers, on=ON)
    more = app.join("more", total=totals, sold=sold, on={"total.key": "sold.customer.id"}, where="sold.order.paid")
    assert more.tables == (orders, customers)
    view = more.view("by", key="sold.order.status", value="total.value.sum", reduce=ps.sum())
    assert view.tables == (orders, customers)


def test_the_stored_definition_makes_the_same_join(shop: Shop) -> None:
    app, orders, customers, _ = shop
    waiting = orders.where(ps.field("status") == "open")
    sold = app.join("sold", order=waiting, customer=customers, on=ON, where=ps.field("customer.tier") > 1, limit=7)
    sold.view("by_country", key="customer.country", value="order.amount", reduce=ps.sum())
    stored = described(app)
    assert list(stored) == ["lines", "orders", "customers", "sold", "sold:order", "sold:customer", "by_country"]
    again = app_from("shop", stored.values(), reducer_from)
    assert described(again) == stored


def kept_index(app: ps.App, orders: Any, customers: Any) -> Any:
    index = orders.view("index", key="status", value="amount", reduce=None)
    return app.join("sold", order=index, customer=customers, on=ON)


def foreign(app: ps.App, orders: Any, customers: Any) -> Any:
    return app.join("sold", order=ps.App("other").table("orders", key="id"), customer=customers, on=ON)


def from_view(path: str) -> Callable[[ps.App, Any, Any], Any]:
    def make(app: ps.App, orders: Any, customers: Any) -> Any:
        totals = orders.view("totals", key="customer_id", reduce={"n": ps.count()})
        return app.join("sold", order=totals, customer=customers, on={path: "customer.id"})

    return make


def whole_side(app: ps.App, orders: Any, customers: Any) -> Any:
    sold = app.join("sold", order=orders, customer=customers, on=ON)
    return app.join("more", sale=sold, customer=customers, on={"sale.order": "customer.id"})


def join(**given: Any) -> Callable[[ps.App, Any, Any], Any]:
    def make(app: ps.App, orders: Any, customers: Any) -> Any:
        own = {"order": orders, "customer": customers, "on": ON, **given}
        return app.join(**{"name": "sold", **{name: value for name, value in own.items() if value != "none"}})

    return make


def on_join(how: Any = "inner", **given: Any) -> Callable[[ps.App, Any, Any], Any]:
    def make(app: ps.App, orders: Any, customers: Any) -> Any:
        sold = app.join("sold", order=orders, customer=customers, on=ON, how=how)
        return sold.view("v", **{"key": "customer.country", "reduce": ps.count(), **given})

    return make


REFUSED: list[tuple[str, Callable[[ps.App, Any, Any], Any], str, str]] = [
    ("one side", join(customer="none"), "sold", "name two or more"),
    ("an unknown side in on", join(on={"ordre.customer_id": "customer.id"}), "ordre", "write 'order.customer_id'"),
    ("a side without a field", join(on={"order": "customer.id"}), "order", "write 'order.id'"),
    ("two paths of one side", join(on={"order.a": "order.b"}), "order", "with another side"),
    ("an empty on", join(on={}), "customer", "'order.customer_id': 'customer.id'"),
    ("no pairs", join(on=["order.a"]), "order.a", "write pairs"),
    ("a side of another type", join(customer="customers"), "customer", "give a table"),
    ("an index", kept_index, "order", "join 'orders' itself"),
    ("another app", foreign, "order", "define it in 'shop'"),
    ("an option as a side", join(where=ps.App("x").table("t", key="id")), "where", "another name"),
    ("an option as a side", join(production=ps.App("x").table("t", key="id")), "production", "another name"),
    ("the name as a side", lambda app, orders, customers: app.join("sold", name=orders, on=ON), "name", "another name"),
    ("a side for the name", lambda app, orders, customers: app.join(name=orders, on=ON), "name", "another name"),
    ("no on", join(on="none"), "customer", "'order.customer_id': 'customer.id'"),
    ("on of None", join(on=None), "customer", "'order.customer_id': 'customer.id'"),
    ("on of text", join(on="order.a=customer.b"), "order.customer_id", "map paths"),
    ("on of a set", join(on={"order.a", "customer.b"}), "order.customer_id", "map paths"),
    ("a number in on", join(on={"order.a": 5}), "sold", "write a path as text"),
    ("a pair of three", join(on=[("order.a", "customer.b", "x")]), "order.customer_id", "write pairs"),
    ("a path with an empty name", join(on={"order..a": "customer.id"}), "order..a", "dots between"),
    ("a side of None", join(order=None), "order", "give a table"),
    ("an option with a fault", join(wher=ps.field("order.a") > 1), "wher", "the option where="),
    ("an empty side", join(**{"": ps.App("x").table("t", key="id")}), "", "write 1 to 100"),
    ("a large limit", join(limit=1 << 63), "sold", "from 1 to"),
    ("a limit of text", join(limit="5"), "sold", "greatest number"),
    ("how of None", join(how=None), "sold", "write one of"),
    ("a where of a wrong type", join(where=5), "sold", "write a path"),
    ("a side filter of a wrong type", lambda app, orders, customers: orders.where(5), "orders", "write a path"),
    ("a whole side of a join", whole_side, "order", "'order.id'"),
    ("a dotted side", join(**{"a.b": ps.App("x").table("t", key="id")}), "a.b", "name it without"),
    ("right", join(how="right"), "customer", "how='left'"),
    ("an unknown how", join(how="cross"), "cross", "write one of"),
    ("a limit", join(limit=0), "sold", "greatest number"),
    ("weak", join(production="weak"), "sold", "leave it out"),
    ("where on no side", join(where=ps.field("country") == "NO"), "order", "write the side first"),
    ("a taken name", join(name="orders"), "orders", "share their names"),
    ("a view without the field", from_view("order.customer_id"), "order", "order.key"),
    ("a field of a key", from_view("order.key.id"), "order.key", "no fields"),
    ("a field of a value", from_view("order.value.m"), "order", "order.value.n"),
    ("a view with another path", on_join(key="country"), "order", "write the side first"),
    ("a view by a side", on_join(key="customer"), "customer", "name a field"),
    ("a view by ts", on_join(value="order.amount", reduce=ps.last()), "sold", "by='at'"),
    ("an early view", on_join(production="weak"), "sold", "leave production= out"),
    ("a view on the second side", on_join(how="semi"), "customer", "read 'order' alone"),
    ("a whole filter", join(order="none", customer="none"), "sold", "name two"),
]


@pytest.mark.parametrize(("make", "name", "remedy"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_refusal_names_the_side_and_the_remedy(
    shop: Shop, make: Callable[[ps.App, Any, Any], Any], name: str, remedy: str
) -> None:
    app, orders, customers, _ = shop
    with pytest.raises(DefinitionError) as caught:
        make(app, orders, customers)
    assert f"'{name}'" in str(caught.value) or name in str(caught.value)
    assert remedy in str(caught.value)


def test_a_side_without_a_condition_is_named(shop: Shop) -> None:
    app, orders, customers, lines = shop
    with pytest.raises(DefinitionError, match="'line'"):
        app.join("all", order=orders, customer=customers, line=lines, on=ON)
    with pytest.raises(DefinitionError, match="'line', 'again'"):
        app.join("all", order=orders, customer=customers, line=lines, again=lines, on={**ON, "line.x": "again.x"})


def test_outer_joins_have_two_sides(shop: Shop) -> None:
    app, orders, customers, lines = shop
    with pytest.raises(DefinitionError, match="'line'"):
        app.join("all", how="left", order=orders, customer=customers, line=lines, on={**ON, "line.order": "order.id"})
