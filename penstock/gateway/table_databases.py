"""How damage in the databases of a table is named."""

from __future__ import annotations

from penstock.cache import META, Place, index_db, log_db, number_shown
from penstock.gateway.lines.line_numbers import moved_db
from penstock.gateway.repeat_notes import repeated_db

__all__ = ["CHECKING", "META_PLACE", "table_places"]

CHECKING = "run `penstock check --fix`, or engine.check(fix=True): it is made anew from the documents"


def _meta_key(key: bytes) -> str:
    kind, colon, name = key.partition(b":")
    shown = name.decode() if name.isascii() else name.hex()
    return f"key {(kind + colon).decode(errors='replace')}{shown}"


META_PLACE = Place("what the store says of itself", _meta_key)


def table_places(name: str, number: int) -> dict[str, Place]:
    """By database, and of what the store says of itself."""
    words = f"table {name!r}"
    return {
        META: META_PLACE,
        words: Place(words, number_shown("log entry")),
        log_db(number): Place(words, number_shown("log entry")),
        index_db(number): Place(f"{words}, its index", lambda key: f"key {key.hex()}", CHECKING),
        repeated_db(number): Place(f"{words}, the keys that a refill lays over", lambda key: f"key {key.hex()}"),
        moved_db(number): Place(f"{words}, the order of its records", number_shown("log entry")),
    }
