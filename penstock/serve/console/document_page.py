"""The data of a table's page, and of a document with its contributions to each view."""

from __future__ import annotations

from itertools import islice
from typing import Any

from penstock.cache import encode_key
from penstock.serve.console.page_parameters import PageParameters
from penstock.serve.console.store_numbers import StoreNumbers
from penstock.serve.http.responses import RequestRefused, position_json
from penstock.views import Table, definition_sentence

__all__ = ["document_data", "table_data"]

_LISTED = 50


def table_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the first documents of a table, and the views on it."""
    table = facts.store.app.table_of(asked.name)
    with facts.store.snapshot() as snap:
        rows = snap.table(table.name)
        listed = [{"key": row.key, "value": row.value, "held": row.held} for row in islice(rows, _LISTED)]
        return {
            "table": table.name,
            "sentence": definition_sentence(table),
            "documents": len(rows),
            "rows": listed,
            "views": [view.name for view in facts.store.app.views() if view.source is table],
            "position": position_json(snap.position),
            "numbers": facts.numbers(),
        }


def document_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return a document, its version, and its contributions to each view as the views count them."""
    table, key = facts.store.app.table_of(asked.name), asked.group("key")
    encode_key(key)
    with facts.store.snapshot() as snap:
        found = snap.stored(table.name, key)
        if found is None:
            raise RequestRefused(404, "no document", f"table {table.name} never had a document with the key {key!r}")
        return {
            "table": table.name,
            "key": found.key,
            "document": found.document,
            "deleted": found.document is None,
            "ts": _version(table, found.document, found.ts),
            "bytes": len(found.line),
            "views": [
                {
                    "view": own.view,
                    "contributions": [{"group": group, "value": value} for group, value in own.pairs],
                    "held": own.held,
                }
                for own in found.told
            ],
            "position": position_json(snap.position),
        }


def _version(table: Table, document: dict[str, Any] | None, ts: Any) -> Any:
    if ts is not None or document is None or not isinstance(table.ts, tuple):
        return ts
    value: Any = document
    for part in table.ts:
        value = value.get(part) if isinstance(value, dict) else None
    return value
