"""Cut a copy of a store into spans for parallel tasks: ranges of keys of a database, or of records of a log.

The stored keys determine the cuts. The result doesn't depend on the cuts, only the balance of the work. Invariant: the
spans of a database cover it, and each row is in one of them.
"""

from __future__ import annotations

import msgspec

from penstock.cache import Reader, log_db, read_mark, record_key

__all__ = ["Span", "spans_of", "spans_of_log"]

_DIGITS = 12  # bytes after the common prefix of all keys that determine the cuts


class Span(msgspec.Struct, array_like=True, frozen=True):
    """Keys from `start` on and before `stop`. None means to the end."""

    start: bytes
    stop: bytes | None


def spans_of(reader: Reader, db: str, many: int, start: bytes = b"", stop: bytes | None = None) -> list[Span]:
    """Return about `many` spans of a database, between two keys."""
    first = next((key for key, _ in reader.scan(db, start, stop)), None)
    last = next((key for key, _ in reader.scan(db, start, stop, reverse=True)), None)
    if first is None or last is None or many < 2 or first == last:
        return [Span(start, stop)]
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    low, high = (int.from_bytes(key[same : same + _DIGITS].ljust(_DIGITS, b"\0"), "big") for key in (first, last))
    cuts: list[bytes] = []
    for i in range(1, many):
        wanted = first[:same] + (low + (high - low) * i // many).to_bytes(_DIGITS, "big")
        found = next((key for key, _ in reader.scan(db, wanted, stop)), None)
        if found is not None and found > (cuts[-1] if cuts else first):
            cuts.append(found)
    return [Span(a, b) for a, b in zip([start, *cuts], [*cuts, stop], strict=True)]


def spans_of_log(reader: Reader, table: int, many: int) -> list[Span]:
    """Return about `many` spans of the segments of a table's log."""
    tail, db = read_mark(reader, table).tail, log_db(table)
    first = next((int.from_bytes(key, "big") for key, _ in reader.scan(db)), tail)
    cuts: list[bytes] = []
    for i in range(1, many):
        wanted = record_key(first + (tail - first) * i // many)
        found = next((key for key, _ in reader.scan(db, wanted)), None)
        if found is not None and found > (cuts[-1] if cuts else record_key(first)):
            cuts.append(found)
    return [Span(a, b) for a, b in zip([b"", *cuts], [*cuts, None], strict=True)]
