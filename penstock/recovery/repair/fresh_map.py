"""The current emissions of documents: each is mapped again, apart from the engine.

Nothing here is remembered. The store has the remembered emissions, and these are only compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.cache import canonical, decode_key
from penstock.gateway import StoredLine
from penstock.mapreduce import Decoder, FieldMapper, FieldPlan, Groups, Hold, Pairs, Spaces, ViewNode
from penstock.recovery.oracle.plain_values import moment_of
from penstock.views import FieldMap, Key, Row, Table, View, reach

_NO_KEY = Key((), False)


def moment_in(table: Table, found: StoredLine, doc: Any) -> Any:
    """Return the ts that orders a stored document; for a merged document the greatest ts of its fields."""
    if found.patched is not None:
        return max(found.patched.stamps.values(), default=None)
    if table.broker_ts:
        return found.ts
    return None if table.ts is None else moment_of(reach(doc, table.ts))[1]


class FreshMap:
    """The map of one view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._spaces = Spaces()
        self._node = ViewNode(view, 0, self._spaces if isinstance(view.map, FieldMap) else None, True)

    def pairs(self, docs: Sequence[Any]) -> list[Pairs | None]:
        """Return the emission of each document, or of each parent row for a chained view; None if the map fails.

        The function sees each document once, and may modify it.
        """
        return [None if isinstance(own, Hold) else own for own in self.mapped(docs)]

    def mapped(self, docs: Sequence[Any]) -> list[Pairs | Hold]:
        """Return the emission of each document, or the reason why the map fails."""
        mapper = self._node.mapper
        if not docs:
            return []
        if not isinstance(mapper, FieldMapper):
            groups = Groups()
            emissions, held = mapper.run(docs, groups)
            return [held.get(i, own) for i, own in enumerate(emissions.pairs_of_each(groups))]
        rows = [{"key": doc.key, "value": doc.value} if isinstance(doc, Row) else doc for doc in docs]
        columns = Decoder(FieldPlan.of(_NO_KEY, None, [self._view]), self._spaces, 0).of_dicts(rows, keys=False)
        selected, bad = mapper.selected(columns), mapper.bad(columns)
        out: list[Pairs | Hold] = []
        for i, row in enumerate(rows):
            if selected is not None and not selected[i]:
                out.append([])
            elif bad is not None and bad[i]:
                out.append(mapper.hold(row))
            else:
                out.append(self._node.pairs_of(mapper.contributions(columns, np.array([i]))))
        return out

    def groups(self, docs: Sequence[Any]) -> set[bytes]:
        """Return the groups to which these documents contribute."""
        return {group for pairs in self.pairs(docs) for group, _ in pairs or ()}


def same_pairs(a: Pairs, b: Pairs) -> bool:
    """Return True if two emissions are the same."""
    return canonical([list(pair) for pair in a]) == canonical([list(pair) for pair in b])


def pairs_text(pairs: Pairs) -> list[tuple[Any, Any]]:
    """Return contributions with decoded groups."""
    return [(decode_key(group), value) for group, value in pairs]
