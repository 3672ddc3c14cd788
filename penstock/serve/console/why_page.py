"""The data of the page that explains one result: its contributions, and the result recomputed from them."""

from __future__ import annotations

from typing import Any

from penstock.recovery import Refused, refolded
from penstock.serve.console.page_parameters import PageParameters
from penstock.serve.console.store_numbers import StoreNumbers
from penstock.serve.console.view_page import cells_of, columns_of
from penstock.serve.http.responses import RequestRefused, position_json
from penstock.views import Contribution, Join, Table, View, json_text

__all__ = ["why_data"]

_LISTED, _RECOMPUTED = 1_000, 10_000
_BY_TS = {"first", "last", "argmax", "argmin"}


def why_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the contributions of a group. Documents are read on request."""
    view = facts.store.app.view_of(asked.name)
    if asked.given("group") is None:
        raise RequestRefused(400, "bad request", f"which group of {view.name}? Add ?group=…, or choose a row")
    group, documents = asked.group("group"), asked.given("documents") is not None
    with facts.store.snapshot() as snap:
        reader = snap.view(view.name)
        found = reader.why(group)
        row = None if view.index else reader.get(group, None)
        held = not view.index and row is not None and reader.row(group).held
        columns, listed = columns_of(view), list[dict[str, Any]]()
        for own in found[:_LISTED]:
            listed.append({"key": own.key, "rank": own.rank, "value": own.value, "held": own.held})
            if documents:
                listed[-1]["document"] = own.document
        return {
            "view": view.name,
            "group": group,
            "value": row,
            "columns": columns,
            "cells": None if row is None else cells_of(row, columns),
            "held": held,
            "contributions": listed,
            "fields": _fields(listed),
            "total": len(found),
            "check": None if view.index or held else _check(view, group, found, row),
            "source": view.source.name,
            "source_kind": _kind(view),
            "documents": documents,
            "position": position_json(snap.position),
        }


def _check(view: View, group: Any, found: list[Contribution], row: Any) -> dict[str, Any]:
    """Recompute the result from the contributions. `equal` is None if they do not suffice for that."""
    described = [reducer.describe() for reducer in view.reducers]
    if any(own["reducer"] in _BY_TS and own.get("by") is None for own in described):
        return {"equal": None, "reason": "the result depends on the ts of the documents", "cells": None}
    if len(found) > _RECOMPUTED:
        return {"equal": None, "reason": f"there are more than {_RECOMPUTED:,} contributions", "cells": None}
    try:
        value = refolded(view, group, [(own.key, own.rank, _shaped(view, own.value), None) for own in found])
    except Refused as error:
        return {"equal": None, "reason": str(error), "cells": None}
    equal = json_text(value) == json_text(row) if found or row is not None else True
    return {"equal": equal, "reason": None, "cells": cells_of(value, columns_of(view))}


def _shaped(view: View, value: Any) -> Any:
    """Return a contribution as the oracle reads it: at its path in a document."""
    path = getattr(view.map, "value", None)
    for part in reversed(path or ()):
        value = {part: value}
    return value


def _fields(listed: list[dict[str, Any]]) -> list[str] | None:
    """Return the fields of the values if each is a map, for a column each; else None."""
    if not listed or not all(isinstance(own["value"], dict) for own in listed):
        return None
    return list(dict.fromkeys(name for own in listed for name in own["value"])) or None


def _kind(view: View) -> str:
    return "table" if isinstance(view.source, Table) else "join" if isinstance(view.source, Join) else "view"
