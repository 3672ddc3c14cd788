"""The search for contributions to groups in views that do not keep them: block by block, all groups at once.

For a field view it searches the documents, as columns decoded by the view's stored definition. For a function view it
searches the remembered emissions. Either is a full pass in bounded memory: the dictionary of groups is recreated once
it is large. The groups searched for have the numbers 0, 1, 2 ….
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import SourceKeys
from penstock.mapreduce.decode.decoder import DecodedColumns, Decoder
from penstock.mapreduce.maps.emissions import Contributions, read_emissions
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces
from penstock.mapreduce.why.contribution_shape import ContributionShape
from penstock.views import TS, FieldMap, Key, Path, View, fields_read

MOST_BYTES = 32 << 20  # of groups that are kept from block to block
_NO_KEY = Key((), False)


@dataclass(frozen=True, slots=True)
class Hit:
    """A contribution to one of the groups: the index of its document in the block, the group, its rank and value."""

    place: int
    group: int
    rank: int
    value: Any


class FieldSearch:
    """The search of documents for their contributions to a field view."""

    def __init__(self, view: View, fields: FieldMap, groups: Sequence[bytes]) -> None:
        self._mapper = FieldMapper(view, fields)
        self._fields = fields
        self._groups = groups
        plain = dict.fromkeys(field for field in fields_read(view.reducers) if field != TS)
        # The fields that reducers read, or all fields of the view's value if it defines one.
        read = {None: fields.value} if fields.value is not None else {field: fields.path_of(field) for field in plain}
        self._read: list[Path] = [path for path in read.values() if path is not None]
        self._shape = ContributionShape(list(read))
        plan = FieldPlan.of(_NO_KEY, None, [view])
        # Values of all kinds are kept, because they are displayed.
        inputs = dict.fromkeys([*self._read, *plan.inputs], True)
        paths = tuple(dict.fromkeys([*plan.paths, *inputs]))
        self._plan = FieldPlan(plan.key, None, plan.groups, plan.group_paths, inputs, plan.wheres, False, paths)
        self._begin()

    def _begin(self) -> None:
        self._spaces = Spaces()
        known = self._spaces.groups(self._fields.key)
        for group in self._groups:
            known.code_of_encoded(group)
        self._decoder = Decoder(self._plan, self._spaces, 0)

    def in_lines(self, lines: Sequence[bytes]) -> list[Hit]:
        """Return the contributions of stored documents."""
        return self._in_columns(self._decoder.columns(lines, keys=False)) if lines else []

    def in_dicts(self, docs: Sequence[Any]) -> list[Hit]:
        """Return the contributions of documents given as dicts."""
        return self._in_columns(self._decoder.of_dicts(docs, keys=False)) if docs else []

    def _in_columns(self, columns: DecodedColumns) -> list[Hit]:
        codes = columns.codes[self._fields.key]
        take = (codes >= 0) & (codes < len(self._groups))
        selected, bad = self._mapper.selected(columns), self._mapper.bad(columns)
        if selected is not None:
            take = take & selected
        if bad is not None:
            take = take & ~bad  # such a document is held, so its former emission counts
        at = np.flatnonzero(take)
        hits: list[Hit] = []
        if at.size:
            values = self._shape.of_columns([columns.inputs[path].take(at) for path in self._read], int(at.size))
            hits = list(map(Hit, at.tolist(), codes[at].tolist(), [0] * len(values), values))
        if self._spaces.nbytes > MOST_BYTES:
            self._begin()
        return hits


class EmissionSearch:
    """The search of a function view's remembered emissions for contributions."""

    def __init__(self, groups: Sequence[bytes]) -> None:
        self._groups = groups
        self._begin()

    def _begin(self) -> None:
        self._known = Groups()
        for group in self._groups:
            self._known.code_of_encoded(group)

    def in_row(self, key: bytes, row: bytes, where: str) -> list[Hit]:
        """Return the contributions in a row of remembered emissions."""
        emissions = read_emissions(key, row, self._known, where)
        hits: list[Hit] = []
        at = np.flatnonzero(emissions.code < len(self._groups))
        if at.size:
            none = SourceKeys(np.zeros(0, np.int64), None)
            whose = Contributions(emissions.code, {}).of(none, np.arange(emissions.documents), emissions.counts).sources
            assert whose is not None, "they were just said to be of someone"
            own = whose.take(at)
            ranks = np.zeros(at.size, np.int64) if own.rank is None else own.rank
            values = [None] * int(at.size) if emissions.values is None else emissions.values.take(at).values()
            hits = list(map(Hit, own.index.tolist(), emissions.code[at].tolist(), ranks.tolist(), values))
        if self._known.nbytes > MOST_BYTES:
            self._begin()
        return hits
