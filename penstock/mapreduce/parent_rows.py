"""The changes of a parent view's rows, and the contributions that they change in a chained view.

The emissions of a function for a parent row are remembered under the key of its group. The emissions of fields follow
from the row again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, canonical, unpack
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.decode.decoder import Decoder
from penstock.mapreduce.fold.accumulator_fold import ViewChanges
from penstock.mapreduce.fold.feed_rows import are_apart
from penstock.mapreduce.maps.contribution_deltas import DocumentContributions, SourceChange, places_of
from penstock.mapreduce.maps.emissions import Contributions, Emissions, emissions_rows
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.function_map import FunctionMapper
from penstock.mapreduce.maps.last_contributions import RememberedRows
from penstock.mapreduce.pending_writes import Writes
from penstock.mapreduce.view_databases import emissions_db
from penstock.views import ABSENT, Row

__all__ = ["RowDelta", "change_by_fields", "change_by_function", "row_deltas"]


class ChainedView(Protocol):
    """The calls of a chained view that this module uses."""

    number: int

    @property
    def groups(self) -> Groups:
        """Return the dictionary of its groups."""
        ...

    def emitted(self, emissions: Emissions) -> Contributions:
        """Return the contributions of these emissions of its function."""
        ...

    def pairs_of(self, contributions: Contributions) -> list[tuple[bytes, Any]]:
        """Return field contributions as pairs, one each."""
        ...

    def remembered(self, reader: Reader) -> RememberedRows:
        """Return the contributions that the view remembers."""
        ...


@dataclass(slots=True)
class RowDelta:
    """A changed row of a parent view or a join: its group or key, and the row before and after, if any."""

    key: bytes
    group: Any
    old: Row | dict[str, Any] | None
    new: Row | dict[str, Any] | None


def row_deltas(change: ViewChanges) -> list[RowDelta]:
    """Return the changes of a view's rows for its child views, without rows whose result stays."""
    sides = zip(change.keyed(), change.results(before=True), change.results(), strict=True)
    return [
        RowDelta(key, group, _row(group, old), _row(group, new))
        for (key, group), old, new in sides
        if are_apart(old, new)
    ]


def change_by_fields(
    view: ChainedView, mapper: FieldMapper, decoder: Decoder, deltas: Sequence[RowDelta], held: Collection[int]
) -> SourceChange:
    """Map rows by fields. Map those before again, except for held rows."""
    new = [i for i, d in enumerate(deltas) if d.new is not None]
    old = [i for i, d in enumerate(deltas) if d.old is not None and i not in held]
    rows = [*(deltas[i].new for i in new), *(deltas[i].old for i in old)]
    columns = decoder.of_dicts([_document(row) for row in rows], keys=False)
    now, stuck = mapper.mapped(columns, np.arange(len(new)), np.array(new, np.int64))
    before, _ = mapper.mapped(columns, np.arange(len(new), len(rows)), np.array(old, np.int64))
    holds = {i: mapper.hold(_document(deltas[i].new)) for i in stuck}
    return SourceChange(now, before, holds, lambda wanted: before.pairs_of_each(wanted, view.pairs_of))


def change_by_function(
    view: ChainedView, mapper: FunctionMapper, reader: Reader, deltas: Sequence[RowDelta], writes: Writes
) -> SourceChange:
    """Map rows by the function and remember the emissions; read those before from the store."""
    db, keys, groups = emissions_db(view.number), [d.key for d in deltas], view.groups
    known, last = view.remembered(reader).joined(keys)
    new = [i for i, d in enumerate(deltas) if d.new is not None]
    emissions, wrong = mapper.run([_for_function(deltas[i].new) for i in new], groups)
    good = np.array([place for place in range(len(new)) if place not in wrong], np.int64)
    puts = emissions_rows([keys[new[place]] for place in good.tolist()], emissions.take(good), groups)
    if puts:
        writes.puts.append((db, puts))
    ended = [keys[i] for i in known.tolist() if deltas[i].new is None]
    if ended:
        writes.deletes.append((db, ended))
    return SourceChange(
        DocumentContributions(view.emitted(emissions), np.array(new, np.int64), emissions.counts),
        DocumentContributions(view.emitted(last), known, last.counts),
        {new[place]: hold for place, hold in wrong.items()},
        lambda wanted: last.take_or_none(places_of(known, wanted)).pairs_of_each(groups),
    )


def _row(group: Any, result: Any) -> Row | None:
    return None if result is ABSENT else Row(group, result)


def _document(row: Row | dict[str, Any] | None) -> dict[str, Any]:
    """Convert a row to a document with paths for the map; a joined row is one already."""
    assert row is not None, "asked of rows that are there"
    return {"key": row.key, "value": row.value} if isinstance(row, Row) else row


def _for_function(row: Row | dict[str, Any] | None) -> Any:
    """Return a row for a function, which may change it. Joined rows share documents, whose fields have no order."""
    return row if isinstance(row, Row) else unpack(canonical(row))
