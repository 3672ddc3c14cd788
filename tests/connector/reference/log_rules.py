"""Rules on the transaction log of a participant whose coordinator follows the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_NEUTRAL = {"list-uncommitted", "close", "connection-closed", "workers-left"}
_FORCED = "next-txn-force-abort"


def violations(records: Sequence[Sequence[Any]], ended: bool = True) -> list[str]:
    """Return each record that breaks a rule, in one line.

    A record is (kind, id, …), as the reference sink writes it, without its time. The log of one worker is in order.
    At the end of a log that has `ended`, no transaction is open.
    """
    return [f"record {at}: {text}" for at, text in _violations(records, ended)]


def _violations(records: Sequence[Sequence[Any]], ended: bool) -> Iterator[tuple[int, str]]:
    committed, forced = 0, False
    open_: tuple[str, bool, int] | None = None  # (id, commit vote, end)
    for at, (kind, *fields) in enumerate(records):
        if kind in ("1-ok", "1-rollback"):
            txn, where = fields
            if open_ is not None:
                yield at, f"{txn} has a vote while {open_[0]} is open"
            if kind == "1-ok" and (len(where) != 1 or where[0][0] != 1):
                yield at, f"{txn} has the ranges {where}; one range of stream 1 is needed"
            elif kind == "1-ok" and where[0][1] != committed:
                yield at, f"{txn} starts at {where[0][1]}, and the last commit ended at {committed}"
            if kind == "1-ok" and forced:
                yield at, f"{txn} has a commit vote after a gap"
            forced = False
            open_ = txn, kind == "1-ok", where[0][2] if where else committed
        elif kind in ("2-ok", "2-rollback"):
            txn, offset = fields
            if open_ is None or open_[0] != txn:
                yield at, f"{txn} is decided without an open vote"
            elif kind == "2-ok" and not open_[1]:
                yield at, f"{txn} is committed after an abort vote"
            elif kind == "2-ok" and offset != open_[2]:
                yield at, f"{txn} is committed up to {offset}, and its vote ended at {open_[2]}"
            elif kind == "2-rollback" and offset != committed:
                yield at, f"{txn} is rolled back to {offset}, and the last commit ended at {committed}"
            if kind == "2-ok" and offset < committed:
                yield at, f"{txn} ends at {offset}, before the last commit at {committed}"
            committed, open_ = max(committed, offset) if kind == "2-ok" else committed, None
        elif kind == "2-error":
            yield at, f"{fields[0]} is decided without an open vote"
        elif kind == _FORCED:
            forced = True
        elif kind not in _NEUTRAL:
            yield at, f"{kind!r} is no kind of record"
    if ended and open_ is not None:
        yield len(records), f"{open_[0]} is still open"
