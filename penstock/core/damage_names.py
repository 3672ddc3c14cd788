"""The names of databases for reports of damage, from the catalog."""

from __future__ import annotations

from penstock.cache import META, DatabaseLabel, number_text
from penstock.core.metadata.catalog import Catalog
from penstock.gateway import META_PLACE, QUARANTINE, table_labels
from penstock.mapreduce import FEED, view_labels

__all__ = ["database_labels"]

_FEED = "read the views with changes(…, initial=True), and follow from there"
_LOST = "drop it with `penstock quarantine drop`, and put the record anew from its source"
_OWN: dict[str, DatabaseLabel] = {
    META: META_PLACE,
    FEED: DatabaseLabel("the feed of changes", number_text("position"), _FEED),
    QUARANTINE: DatabaseLabel("quarantine", lambda key: f"record r{int.from_bytes(key, 'big')}", _LOST),
}


def database_labels(catalog: Catalog | None) -> dict[str, DatabaseLabel]:
    """Return the purpose of each database; without a catalog, only of those that every store has."""
    out = dict(_OWN)
    if catalog is None:
        return out
    tables = {name for name, entry in catalog.entries.items() if entry.target["kind"] == "table"}
    for name, entry in catalog.entries.items():
        if name in tables:
            out |= table_labels(name, entry.number)
            continue
        for number, definition in ((entry.number, entry.definition), (entry.written, entry.target)):
            if number:
                out |= view_labels(name, number, definition["source"] not in tables)
    return out
