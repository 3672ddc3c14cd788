"""Labels for messages about damage in the databases of a table."""

from __future__ import annotations

from penstock.cache import META, DatabaseLabel, index_db, log_db, number_text
from penstock.gateway.lines.line_numbers import moved_lines_db
from penstock.gateway.refill_repeats import repeated_db

__all__ = ["CHECKING", "META_PLACE", "table_labels"]

CHECKING = "run `penstock check --fix`, or engine.check(fix=True): it is made anew from the documents"


def _meta_key(key: bytes) -> str:
    kind, colon, name = key.partition(b":")
    shown = name.decode() if name.isascii() else name.hex()
    return f"key {(kind + colon).decode(errors='replace')}{shown}"


META_PLACE = DatabaseLabel("what the store says of itself", _meta_key)


def table_labels(name: str, number: int) -> dict[str, DatabaseLabel]:
    """Return the label of each database of a table, and of the meta database."""
    words = f"table {name!r}"
    return {
        META: META_PLACE,
        words: DatabaseLabel(words, number_text("log entry")),
        log_db(number): DatabaseLabel(words, number_text("log entry")),
        index_db(number): DatabaseLabel(f"{words}, its index", lambda key: f"key {key.hex()}", CHECKING),
        repeated_db(number): DatabaseLabel(
            f"{words}, the keys that a refill lays over", lambda key: f"key {key.hex()}"
        ),
        moved_lines_db(number): DatabaseLabel(f"{words}, the order of its records", number_text("log entry")),
    }
