"""A side of a join as the node of a view without a reducer: a group is a condition value, its values projections.

The gateway drives it like any view of a table, so it holds documents as views do. It gathers the changes of a batch.
The join takes them as entries when all tables have their final documents. Invariant: an entry of M is derived from the
remembered fields of the document or from its held row, never from the new version.
"""

from __future__ import annotations

import numpy as np

from penstock.cache import FEW, Reader, decode_key
from penstock.join.conditions import ConditionKeys
from penstock.join.joined_rows import SideChange
from penstock.join.side_entries import Entries, Mask
from penstock.join.side_index import SideIndex
from penstock.join.sorted_runs import changed_entries
from penstock.mapreduce import (
    Codes,
    Contributions,
    Groups,
    SourceKeys,
    Spaces,
    TransactionContributions,
    ViewNode,
    Writes,
)
from penstock.views import FieldMap, SideView

__all__ = ["SideNode"]


class SideNode(ViewNode):
    """The node of one side."""

    def __init__(self, view: SideView, number: int, spaces: Spaces | None, few: int = FEW) -> None:
        super().__init__(view, number, spaces, complete=False, few=few)
        self.side = view
        self.index = SideIndex(number, len(view.projection))
        self._values: _SideValues | None = None

    def nbytes(self, spaces: bool) -> int:
        """Estimate the bytes in use; with shared groups if `spaces`."""
        return super().nbytes(spaces) + self.index.nbytes

    def forget(self, spaces: Spaces | None) -> None:
        """Drop the memory; `spaces` are those of its source."""
        super().forget(spaces)
        self.index.forget()
        self._values = None

    def advance(self, reader: Reader, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        """Gather contributions for the join."""
        writes.gathered.setdefault(self.number, TransactionContributions()).add(plus, minus)

    def change(self, reader: Reader, own: TransactionContributions | None) -> SideChange:
        """Return M, P and K of a transaction. A document whose entry stays as it is belongs to K."""
        none = Entries.none(len(self.side.projection))
        minus, plus = none, none
        if own is not None:
            minus, plus = changed_entries(self.entries(own.minus), self.entries(own.plus))
        return SideChange(minus, plus, self.index.kept(reader, Entries.join([minus, plus])))

    def entries(self, parts: list[Contributions]) -> Entries:
        """Return contributions as entries. One with a null condition value is left out if it has no row."""
        own = Contributions.join(parts)
        assert own.sources is not None, "a side keeps the keys of its documents"
        keys, index = own.sources.keys, own.sources.index
        if self._values is None or self._values.groups is not self.groups:
            assert isinstance(self.view.map, FieldMap), "a side has no function"
            self._values = _SideValues(self.groups, self.view.map.key.single)
        null = self._values.null(own.code)
        if null.any() and not self.side.unmatched:
            matching = np.flatnonzero(~null)
            own, index, null = own.take(matching), index[matching], null[matching]
        text = None if keys.text is None else keys.text[index]
        columns = [own.inputs[path] for path in self.side.projection]
        return Entries.of(
            self._values.keys.of(own.code), SourceKeys(keys.lane[index], text), columns, null if null.any() else None
        )


class _SideValues:
    """The groups of a side as condition values, and which of them are null, each found once."""

    def __init__(self, groups: Groups, single: bool) -> None:
        self.groups = groups
        self.keys = ConditionKeys(groups)
        self._single = single
        self._null = np.zeros(0, bool)

    def null(self, codes: Codes) -> Mask:
        """Mark the codes whose condition value is null. One null part of a composite value is enough."""
        known, size = self._null.size, self.groups.size
        if known < size:
            fresh = [self._is_null(decode_key(self.groups.whole(code))) for code in range(known, size)]
            self._null = np.concatenate([self._null, np.array(fresh, bool)])
        out: Mask = self._null[codes]
        return out

    def _is_null(self, value: object) -> bool:
        if self._single:
            return value is None
        return isinstance(value, tuple) and any(part is None for part in value)
