"""The names of databases for reports of damage, from the catalog."""

from __future__ import annotations

from penstock.cache import META, DatabaseLabel, log_db, number_text, stored_key_text
from penstock.core.metadata.catalog import Catalog
from penstock.flow import ids_db
from penstock.gateway import META_PLACE, QUARANTINE, table_labels
from penstock.join import side_dbs
from penstock.mapreduce import FEED, held_db, resting_db, view_labels

__all__ = ["database_labels"]

_FEED = "read the views with changes(…, initial=True), and follow from there"
_INDEX = "run `penstock check --fix`, which makes it anew from the documents"
_LOST = "drop it with `penstock quarantine drop`, and put the record anew from its source"
_HELD = "drop the records that views hold with `penstock quarantine drop`, and put them again"
_OWN: dict[str, DatabaseLabel] = {
    META: META_PLACE,
    FEED: DatabaseLabel("the feed of changes", number_text("position"), _FEED),
    QUARANTINE: DatabaseLabel("quarantine", lambda key: f"record r{int.from_bytes(key, 'big')}", _LOST),
}


def _join_labels(name: str, number: int, is_side: bool) -> dict[str, DatabaseLabel]:
    """Return the labels of a join, or of the side of one."""
    join, _, side = name.partition(":")
    if not is_side:
        words = f"join {name!r}, condition values above the limit"
        return {held_db(number): DatabaseLabel(words, stored_key_text("value"), _INDEX)}
    words, key = f"join {join!r}, side {side!r}", stored_key_text("document")
    out = {db: DatabaseLabel(f"{words}, its index", lambda key: f"row {key.hex()}", _INDEX) for db in side_dbs(number)}
    out[held_db(number)] = DatabaseLabel(f"{words}, held documents", key, _INDEX)
    out[resting_db(number)] = DatabaseLabel(f"{words}, resting documents", key, _INDEX)
    return out


def database_labels(catalog: Catalog | None) -> dict[str, DatabaseLabel]:
    """Return the purpose of each database; without a catalog, only of those that every store has."""
    out = dict(_OWN)
    if catalog is None:
        return out
    kinds = {name: entry.target["kind"] for name, entry in catalog.entries.items()}
    tables = {name for name, kind in kinds.items() if kind == "table"}
    based = {name for name, kind in kinds.items() if kind in ("table", "stream")}
    for name, entry in catalog.entries.items():
        if name in tables:
            out |= table_labels(name, entry.number)
            continue
        if entry.target["kind"] == "stream":
            words = f"stream {name!r}"
            out |= {
                words: DatabaseLabel(words, number_text("record")),
                log_db(entry.number): DatabaseLabel(words, number_text("record"), _HELD),
                ids_db(entry.number): DatabaseLabel(f"{words}, ids", lambda key: f"row {key.hex()}"),
            }
            continue
        if entry.target["kind"] in ("join", "side"):
            out |= _join_labels(name, entry.written, entry.target["kind"] == "side")
            continue
        for number, definition in ((entry.number, entry.definition), (entry.written, entry.target)):
            if number:
                out |= view_labels(name, number, definition["source"] not in based)
    return out
