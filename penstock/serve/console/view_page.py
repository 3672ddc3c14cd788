"""The data of a view's page: its definition and cost, and a page of its rows that may follow the changes."""

from __future__ import annotations

from typing import Any

from penstock.cache import encode_key, prefix_bounds
from penstock.serve.console.page_parameters import PageParameters
from penstock.serve.console.page_rendering import shown_text
from penstock.serve.console.store_numbers import StoreNumbers
from penstock.serve.http.responses import json_bytes, position_json
from penstock.serve.store.row_pages import PageRequest, read_page
from penstock.views import FieldMap, View, group_of_json, group_of_text, json_value, view_costs

__all__ = ["cells_of", "columns_of", "view_data"]

_ROWS, _MOST, _MOST_OF_FILE = 100, 500, 10_000
_NO_END = "g"  # above each hexadecimal text


def view_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the data of a page of rows."""
    view = facts.store.app.view_of(asked.name)
    prefix, level, reverse = asked.given("prefix"), asked.given("level"), asked.given("reverse") is not None
    most = _MOST if asked.format in ("html", "json") else _MOST_OF_FILE
    request = PageRequest(
        view.name,
        {} if prefix is None else {"prefix": group_of_text(prefix)},
        reverse,
        asked.number("limit", _ROWS if most == _MOST else most, most) or 1,
        None if level is None else asked.number("level", 1, 1000),
        asked.given("cursor"),
    )
    with facts.store.snapshot() as snap:
        page = read_page(facts.store.reader, snap, request, json_bytes)
        reader = snap.view(view.name)
        as_of = None if reader.as_of is None else position_json(reader.as_of)
        groups = len(reader)
    columns = columns_of(view)
    rows = [_row(text, columns) for text in page.texts]
    return {
        "view": view.name,
        "source": view.source.name,
        "groups": groups,
        "position": position_json(page.position),
        "as_of": as_of,
        "columns": columns,
        "rows": rows,
        "cursor": page.cursor,
        "prefix": prefix,
        "level": request.level,
        "levels": _levels(view),
        "reverse": reverse,
        "limit": request.limit,
        "live": None if request.level is not None or as_of is not None else _interval(request, rows, page.cursor),
        "definition": [list(fact) for fact in view_costs(view)],
        "numbers": facts.numbers(),
    }


def columns_of(view: View) -> list[str]:
    """Return the columns of the view's results: the names of its reducers, or one column."""
    return list(view.fields) if view.fields is not None else ["value"]


def cells_of(value: Any, columns: list[str]) -> list[str]:
    """Return a result as the texts of its columns."""
    if columns == ["value"] or not isinstance(value, dict):
        return [shown_text(value)]
    return [shown_text(value.get(name)) for name in columns]


def _row(text: bytes, columns: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = json_value(text)
    order = encode_key(group_of_json(row["key"])).hex()
    return row | {"order": order, "cells": cells_of(row["value"], columns)}


def _levels(view: View) -> list[str]:
    """Return the parts of a group that rows may be rolled up to; the last one is the group itself."""
    if not isinstance(view.map, FieldMap) or view.map.key.single or view.index:
        return []
    return [".".join(path) for path in view.map.key.paths]


def _interval(request: PageRequest, rows: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    """Return the encoded groups between which the page shows each row, as hexadecimal texts. `stop` is excluded."""
    low, high = "", _NO_END
    if "prefix" in request.limits:
        first, last = prefix_bounds(request.limits["prefix"])
        low, high = first.hex(), _NO_END if last is None else last.hex()
    orders = [row["order"] for row in rows]
    if orders and request.cursor is not None:  # rows of the page before are left out
        low, high = (low, orders[0] + "00") if request.reverse else (orders[0], high)
    if orders and cursor is not None:
        low, high = (orders[-1], high) if request.reverse else (low, orders[-1] + "00")
    return {"start": low, "stop": high}
