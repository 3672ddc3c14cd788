"""Pages and their JSON twins: each page has its facts, values are escaped, and a limited token sees only its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, TokenFile
from penstock.serve.console.console import routes_of_console
from tests.serve.asgi import AsgiServer, lines, shop
from tests.serve.serving import Answer

SCRIPT = "<script>alert(1)</script>"
DOCUMENTS: list[dict[str, Any]] = [
    {"id": i, "ts": 1, "country": ["NO", "SE", SCRIPT][i % 3], "day": i % 4, "amount": 1000.5 * i} for i in range(12)
]


def app_of_console() -> ps.App:
    app = shop()
    orders, revenue = app.table_of("orders"), app.view_of("revenue")

    @orders.view(reduce=ps.count())
    def strict(order: dict[str, Any]) -> Iterator[tuple[str, float]]:
        yield order["country"], 1 / order["amount"]

    revenue.view("sizes", key="value.n", reduce=ps.count())
    app.table("customers", key="id")
    customers = app.table_of("customers")
    bought = app.join("bought", customer=customers, order=orders, on={"customer.id": "order.customer"})
    bought.view("by_name", key="customer.name", reduce=ps.count())
    return app


@pytest.fixture(scope="module", params=[1, 2])
def server(request: pytest.FixtureRequest) -> Iterator[AsgiServer]:
    app = app_of_console()
    with AsgiServer(ps.open(app, None, partitions=request.param), app) as own:
        own.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS, b"no json"))
        yield own


def page(server: AsgiServer, path: str, **headers: str) -> str:
    answer = server.ask("GET", path, accept="text/html", **headers)
    assert answer.status == 200, (path, answer)
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    return answer.body.decode()


PAGES = ["/views/revenue?limit=2", "/views/by_day?level=1", "/views/revenue/why?group=NO&documents=1"]
PAGES += ["/tables/orders", "/tables/orders?key=3", "/graph?node=bought"]
PAGES += [path for _, path in routes_of_console() if "{" not in path and path != "/live"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_a_twin_and_no_foreign_address(server: AsgiServer, path: str) -> None:
    text = page(server, path)
    assert "<script>alert" not in text
    assert " style=" not in text
    assert " onclick=" not in text
    assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("<!doctype html>", "")
    if path != "/sign-in":
        twin = text.split('">This page as JSON</a>')[0].rpartition('href="')[2].replace("&amp;", "&")
        assert isinstance(server.ask("GET", twin).json, dict)
        assert server.ask("GET", path, accept="application/json").json.keys() == server.ask("GET", twin).json.keys()


def test_the_overview_lists_all_and_tells_what_to_do(server: AsgiServer) -> None:
    text = page(server, "/")
    assert all(name in text for name in ("orders", "revenue", "by_day", "sizes", "bought"))
    found = server.ask("GET", "/index.json").json
    steps = {item["link"] for item in found["attention"]}
    assert steps == {"/quarantine?table=orders", "/quarantine?view=strict"}
    assert (found["numbers"]["documents:orders"], found["numbers"]["groups:revenue"]) == ("12", "3")


def test_rows_of_a_view(server: AsgiServer) -> None:
    found = server.ask("GET", "/views/revenue.json").json
    assert [(row["key"], row["value"]["n"]) for row in found["rows"]] == [(SCRIPT, 4), ("NO", 4), ("SE", 4)]
    assert found["rows"][1]["cells"] == ["4", "18,009.0"]
    assert found["live"] == {"start": "", "stop": "g"}
    first = server.ask("GET", "/views/revenue.json?limit=2").json
    second = server.ask("GET", f"/views/revenue.json?limit=2&cursor={first['cursor']}").json
    assert [row["key"] for row in first["rows"] + second["rows"]] == [SCRIPT, "NO", "SE"]
    assert first["live"]["stop"] == first["rows"][1]["order"] + "00"
    rolled = server.ask("GET", "/views/by_day.json?level=1").json
    assert [(row["key"], row["value"]) for row in rolled["rows"]] == [([SCRIPT], 4), (["NO"], 4), (["SE"], 4)]
    assert rolled["live"] is None
    assert server.ask("GET", "/views/by_day.json?prefix=[%22NO%22]").json["rows"][0]["key"][0] == "NO"


def test_files_of_a_view(server: AsgiServer) -> None:
    table = server.ask("GET", "/views/revenue.csv")
    assert table.headers["content-disposition"] == 'attachment; filename="revenue.csv"'
    assert table.body.decode().splitlines()[2] == "NO,4,18009.0"
    listed = server.ask("GET", "/views/revenue.jsonl?limit=1")
    assert json.loads(listed.body)["key"] == SCRIPT
    assert listed.headers["link"].endswith('; rel="next"')
    assert server.ask("GET", "/tables/orders.csv").status == 404


def test_a_name_may_look_like_a_twin() -> None:
    app = ps.App("odd")
    app.table("t", key="id").view("rows.json", key="x", reduce=ps.count())
    with AsgiServer(ps.open(app, None), app) as server:
        assert "rows.json" in page(server, "/views/rows.json")
        assert server.ask("GET", "/views/rows.json.json").json["view"] == "rows.json"


def test_why_has_the_sum_of_its_contributions(server: AsgiServer) -> None:
    found = server.ask("GET", "/views/revenue/why.json?group=NO").json
    assert found["value"] == {"n": 4, "total": 18009.0}
    assert (found["total"], found["check"]["equal"]) == (4, True)
    assert "the same as shown" in page(server, "/views/revenue/why?group=NO")
    assert "no row" in page(server, "/views/revenue/why?group=XX")
    assert server.ask("GET", "/views/sizes/why.json?group=4").json["check"]["equal"] is True


def test_a_view_over_values_is_recomputed() -> None:
    app = ps.App("values")
    table = app.table("t", key="id", ts="ts")
    table.view("sums", key="k", value="a.b", reduce=ps.sum())
    table.view("first", key="k", value="a.b", reduce=ps.first())
    with AsgiServer(ps.open(app, None), app) as server:
        server.ask("POST", "/v1/tables/t", lines(*({"id": i, "ts": 1, "k": "x", "a": {"b": i}} for i in range(5))))
        assert server.ask("GET", "/views/sums/why.json?group=x").json["check"]["equal"] is True
        assert server.ask("GET", "/views/first/why.json?group=x").json["check"]["equal"] is None


def test_a_document_names_its_contributions(server: AsgiServer) -> None:
    found = server.ask("GET", "/tables/orders.json?key=3").json
    assert found["document"]["amount"] == 3001.5
    assert {own["view"] for own in found["views"]} >= {"revenue", "by_day"}
    assert server.ask("GET", "/tables/orders.json?key=99").status == 404


def test_the_quarantine_has_reasons_and_next_steps(server: AsgiServer) -> None:
    found = server.ask("GET", "/quarantine.json").json
    assert {own["kind"] for own in found["entries"]} == {"record", "document"}
    only = server.ask("GET", "/quarantine.json?kind=record&table=&view=").json["entries"]
    assert [own["data"] for own in only] == ["no json"]
    assert "/actions/Retry" in page(server, "/quarantine")


def test_the_graph_shows_the_neighbors_of_one(server: AsgiServer) -> None:
    near = server.ask("GET", "/graph.json?node=revenue").json
    assert {own["name"] for own in near["nodes"]} == {"orders", "revenue", "sizes"}
    join = server.ask("GET", "/graph.json?node=bought").json
    assert {own["name"] for own in join["nodes"]} == {"orders", "customers", "bought", "by_name"}
    assert {own["name"] for own in server.ask("GET", "/graph.json?node=by_name").json["nodes"]} == {"bought", "by_name"}
    assert 'data-live="groups:revenue|groups"' in page(server, "/graph")


def test_a_large_graph_is_not_drawn_whole() -> None:
    app = ps.App("large")
    table = app.table("t", key="id")
    for i in range(60):
        table.view(f"v{i}", key="x", reduce=ps.count()).view(f"w{i}", key="value", reduce=ps.count())
    with AsgiServer(ps.open(app, None), app) as server:
        assert len(server.ask("GET", "/graph.json").json["nodes"]) == 61
        assert len(server.ask("GET", "/graph.json?node=v3").json["nodes"]) == 3


def test_an_unknown_name_is_a_page_with_a_hint(server: AsgiServer) -> None:
    answer = server.ask("GET", "/views/revenu", accept="text/html")
    assert answer.status == 404
    assert b"Did you mean" in answer.body
    assert server.ask("GET", "/views/revenu").json["error"]["nearest"] == "revenue"
    assert server.ask("GET", "/nothing", accept="text/html").status == 404


def test_a_token_of_one_table_sees_its_pages_only(tmp_path: Any) -> None:
    app = app_of_console()
    file = TokenFile(str(tmp_path / "tokens"))
    secret = file.add("board", Role.READ, frozenset({"orders"}), None)
    tokens = TokenBook(AccessToken("run", Role.ADMIN, "0" * 64), file)

    def ask(path: str) -> Answer:
        return server.ask("GET", path, authorization=f"Bearer {secret}")

    with AsgiServer(ps.open(app, None), app, tokens=tokens) as server:
        found = ask("/views/revenue.json")
        assert found.status == 200
        names = {name.partition(":")[2] for name in found.json["numbers"]}
        assert names == {"orders", "revenue", "by_day", "strict", "sizes"}
        assert [ask(path).status for path in ("/", "/index.json", "/tables/customers", "/feed")] == [403] * 4


def test_files_have_etags(server: AsgiServer) -> None:
    first = server.ask("GET", "/static/console.js", authorization="")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    again = server.ask("GET", "/static/console.js", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert server.ask("GET", "/static/nothing.js").status == 404
