"""Pages of rows are all of one position, also beside writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.views import json_text, json_value
from tests.serve.asgi import AsgiServer, shop

COUNTRIES = ["DK", "NO", "SE", "Å", ""]
PUTS = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(COUNTRIES), st.integers(0, 3), st.integers(-5, 5)), max_size=8
)
LIMITS = st.sampled_from(["", '&prefix=["NO"]', '&start=["DK",2]', '&stop=["SE",1]', '&start=["DK"]&stop=["SE"]'])


def put(engine: ps.Engine, puts: list[tuple[int, str, int, int]], ts: int) -> None:
    for key, country, day, amount in puts:
        if amount < -3:
            engine.delete("orders", key, ts=ts)
        else:
            engine.put("orders", {"id": key, "ts": ts, "country": country, "day": day, "amount": amount})


def pages(server: AsgiServer, query: str, between: Callable[[int], None]) -> list[Any]:
    """Return the rows of all pages; `between` is called before each page but the first."""
    path, rows, positions, n = f"/v1/views/by_day/rows?{query}", list[Any](), set[str](), 0
    while True:
        answer = server.ask("GET", path)
        assert answer.status == 200, answer
        rows += answer.json["rows"]
        positions.add(str(answer.json["position"]))
        assert len(positions) == 1
        if "link" not in answer.headers:
            return rows
        path = answer.headers["link"].partition(">")[0][1:]
        n += 1
        between(n)


@pytest.mark.parametrize("partitions", [1, 2])
@settings(max_examples=15)
@given(first=PUTS, later=st.lists(PUTS, max_size=6), limit=st.integers(1, 4), reverse=st.booleans(), limits=LIMITS)
def test_pages_are_the_rows_of_the_first_position(
    partitions: int, first: list[Any], later: list[list[Any]], limit: int, reverse: bool, limits: str
) -> None:
    app = shop()
    with ps.open(app, None, partitions=partitions) as engine, AsgiServer(engine, app) as server:
        put(engine, first, 1)
        engine.settle()
        bounds = dict(part.split("=") for part in limits.split("&") if part)
        values = {name: json_value(text) for name, text in bounds.items()} if bounds else {}
        with engine.snapshot() as snap:
            asked: dict[str, Any] = {name: tuple(value) for name, value in values.items()}
            found = snap.view("by_day").items(reverse=reverse, **asked)
            expected = [(row.key, row.value) for row in found]
        query = f"limit={limit}&reverse={int(reverse)}" + "".join(f"&{k}={quote(v)}" for k, v in bounds.items())
        left = iter(later)
        rows = pages(server, query, lambda n: put(engine, next(left, []), n + 1))
        assert [(tuple(row["key"]), row["value"]) for row in rows] == expected


def test_a_page_whose_position_left_the_feed_is_gone() -> None:
    app = shop()
    with ps.open(app, None, changes=5) as engine, AsgiServer(engine, app) as server:
        put(engine, [(i, "NO", i, 1) for i in range(9)], 1)
        link = server.ask("GET", "/v1/views/by_day/rows?limit=2").headers["link"].partition(">")[0][1:]
        for ts in range(2, 40):
            engine.put_many("orders", [{"id": i, "ts": ts, "country": f"c{ts}", "day": i} for i in range(9)])
        gone = server.ask("GET", link)
        assert (gone.status, gone.json["error"]["code"]) == (410, "position expired")
        assert gone.json["error"]["oldest"] > 2


def test_rolled_up_pages() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        put(engine, [(i, COUNTRIES[i % 3], i, 1) for i in range(9)], 1)
        assert [tuple(row["key"]) for row in pages(server, "level=1&limit=1", lambda n: None)] == [
            ("DK",),
            ("NO",),
            ("SE",),
        ]
        back = pages(server, "level=1&limit=2&reverse=1", lambda n: None)
        assert [(row["key"], row["value"]) for row in back] == [(["SE"], 3), (["NO"], 3), (["DK"], 3)]
        link = server.ask("GET", "/v1/views/by_day/rows?level=1&limit=1").headers["link"].partition(">")[0][1:]
        put(engine, [(99, "XX", 1, 1)], 1)
        assert server.ask("GET", link).status == 410


def test_a_page_ends_after_its_bytes() -> None:
    app = ps.App("texts")
    texts = app.table("texts", key="id")
    texts.view("longest", key="id", value="text", reduce=ps.max())
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        engine.put_many("texts", [{"id": i, "text": "x" * 60_000} for i in range(12)])
        page = server.ask("GET", "/v1/views/longest/rows")
        assert len(page.json["rows"]) == 5
        assert json_text(page.json["rows"][-1]["key"]) == "4"
        assert "cursor" in page.json
