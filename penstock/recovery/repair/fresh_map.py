"""What a view would be told of some documents now: their groups and values, mapped by themselves and beside the engine.

Nothing here is remembered: what a view was told stands in the store, and this is only held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.cache import canonical, decode_key
from penstock.gateway import Unwrapped
from penstock.mapreduce import Decoder, FieldMapper, Groups, Hold, Pairs, Plan, Spaces, ViewNode
from penstock.recovery.oracle.plain_values import moment_of
from penstock.views import FieldMap, Key, Row, Table, View, reach

_NO_KEY = Key((), False)


def moment_in(table: Table, found: Unwrapped, doc: Any) -> Any:
    """What a stored document is ordered by; of one that is merged the greatest of its fields."""
    if found.patched is not None:
        return max(found.patched.stamps.values(), default=None)
    if table.broker_ts:
        return found.ts
    return None if table.ts is None else moment_of(reach(doc, table.ts))[1]


class Mapping:
    """The map of one view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._spaces = Spaces()
        self._node = ViewNode(view, 0, self._spaces if isinstance(view.map, FieldMap) else None, True)

    def pairs(self, docs: Sequence[Any]) -> list[Pairs | None]:
        """The contributions of each of these documents, of a view of a view of each of these rows; None where it fails.

        The function sees each document once, and may spoil it.
        """
        return [None if isinstance(own, Hold) else own for own in self.told(docs)]

    def told(self, docs: Sequence[Any]) -> list[Pairs | Hold]:
        """The same, with the reason where it fails."""
        mapper = self._node.mapper
        if not docs:
            return []
        if not isinstance(mapper, FieldMapper):
            groups = Groups()
            emissions, held = mapper.run(docs, groups)
            return [held.get(i, own) for i, own in enumerate(emissions.pairs_of_each(groups))]
        rows = [{"key": doc.key, "value": doc.value} if isinstance(doc, Row) else doc for doc in docs]
        columns = Decoder(Plan.of(_NO_KEY, None, [self._view]), self._spaces, 0).of_dicts(rows, keys=False)
        kept, bad = mapper.kept(columns), mapper.bad(columns)
        out: list[Pairs | Hold] = []
        for i, row in enumerate(rows):
            if kept is not None and not kept[i]:
                out.append([])
            elif bad is not None and bad[i]:
                out.append(mapper.hold(row))
            else:
                out.append(self._node.pairs_of(mapper.contributions(columns, np.array([i]))))
        return out

    def groups(self, docs: Sequence[Any]) -> set[bytes]:
        """The groups of all that these documents contribute."""
        return {group for pairs in self.pairs(docs) for group, _ in pairs or ()}


def same_pairs(a: Pairs, b: Pairs) -> bool:
    """Whether two emissions are one and the same."""
    return canonical([list(pair) for pair in a]) == canonical([list(pair) for pair in b])


def shown_pairs(pairs: Pairs) -> list[tuple[Any, Any]]:
    """Contributions as people read them."""
    return [(decode_key(group), value) for group, value in pairs]
