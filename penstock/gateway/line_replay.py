"""Replay stored lines of a table into another node of it, such as the store of a refill.

A line contains its version, so it wins or loses as it would have in its original order. Invariant: when documents merge
from patches, each field keeps its own ts, and the floor of deletions goes before the fields.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.cache import Lane, PenstockError, Reader, value_text
from penstock.gateway.intake.intake import Deletion, TableBatch
from penstock.gateway.lines.stored_lines import PatchedDocument, StoredLine, unwrap
from penstock.gateway.patches import MergedDocument, PatchStep, next_of
from penstock.gateway.table_node import TableNode
from penstock.gateway.versions.version_stamps import TEXT
from penstock.gateway.view_deltas import key_value
from penstock.mapreduce import Writes
from penstock.views import Merge

__all__ = ["carry_over"]

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS = 1_000_000_000


def carry_over(node: TableNode, reader: Reader, k0: Lane, k1: Lane | None, lines: list[bytes], writes: Writes) -> None:
    """Apply these stored lines in their order; `k0` and `k1` are the lanes of their keys."""
    found = [unwrap(line) for line in lines]
    if node.table.merge is Merge.PATCH:
        _merged(node, reader, k0, k1, found, writes)
        return
    batch = TableBatch([])
    for i, one in enumerate(found):
        if one.line is None:
            batch.deletes[i] = Deletion(one.key, _moment(node, one.ts))
            continue
        batch.lines.append(one.line)
        if node.table.broker_ts:
            batch.stamps[i] = one.ts
    report = node.process(reader, batch, writes)
    if report.rejected:
        place, why = next(iter(report.rejected.items()))
        raise PenstockError(
            f"table {node.table.name!r}: what was written meanwhile can't be taken "
            f"({value_text(lines[place])}: {why}); "
            "see that its source has the ts of the table, and run this again"
        )


def _moment(node: TableNode, ts: Any) -> Any:
    """Return the ts of a deletion in its input form. A table with text ts stores nanoseconds."""
    if ts is None or node.ts_kind != TEXT:
        return ts
    seconds, nanos = divmod(int(ts), _NANOS)
    whole = _BEGIN + timedelta(seconds=seconds)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{nanos:09}Z".rjust(30, "0")


def _merged(
    node: TableNode, reader: Reader, k0: Lane, k1: Lane | None, found: list[StoredLine], writes: Writes
) -> None:
    slots = node.slots_of(reader, k0, k1)
    steps: list[PatchStep] = []
    whose: list[int] = []
    for i, (slot, one) in enumerate(zip(slots.tolist(), found, strict=True)):
        own = _steps(slot, one)
        steps += own
        whose += [i] * len(own)
    assert node.patcher is not None, "it merges patches"
    _, merged = node.patcher.merge(reader, steps)
    if not merged:
        return
    docs = [m.own.fields for m in merged if m.own.fields]
    columns = node.decoder.of_dicts(docs, keys=False, tell=True)
    lines = [m.line(_key(node, m, found[whose[m.step]])) for m in merged]
    node.tell(reader, next_of(merged, lines, columns), writes)


def _steps(slot: int, one: StoredLine) -> list[PatchStep]:
    """Split a stored document into patch steps, the oldest first."""
    if one.patched is None:
        return [PatchStep(slot, None, one.ts)]
    floor, stamps, fields = one.patched.floor, one.patched.stamps, one.patched.fields
    out = [] if floor is None else [PatchStep(slot, None, floor)]
    if not stamps:
        return [*out, PatchStep(slot, fields, None)] if fields else out
    for ts in sorted(set(stamps.values())):
        out.append(PatchStep(slot, {name: fields[name] for name, own in stamps.items() if own == ts}, ts))
    return out


def _key(node: TableNode, merged: MergedDocument, one: StoredLine) -> Any:
    """Return the key of a document. A line without a document contains its key."""
    patched: PatchedDocument | None = one.patched
    return one.key if patched is None else key_value(node.table, merged.own.fields or patched.fields)
