"""Check all laws of one view on documents of its source."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.recovery import user_of
from penstock.testing.laws.algebra import Algebra, values_read
from penstock.testing.laws.laws import Breach, Pair, distinct
from penstock.testing.laws.map_laws import map_breach
from penstock.testing.laws.rereduce import rereduce_breach
from penstock.views import FieldMap, ReduceFunction, View

_DOCS = 60


def documents_of(docs: Iterable[Pair]) -> list[Pair]:
    """Return the smallest documents to check laws on. A key may have several versions."""
    return sorted(distinct(docs), key=lambda pair: len(repr(pair)))[:_DOCS]


def breach_of(view: View, docs: Iterable[Pair]) -> Breach | None:
    """Return the first law that a view breaks on these documents of its source, or None."""
    some = documents_of(docs)
    if not isinstance(view.map, FieldMap):
        found = map_breach(view, some)
        if found is not None:
            return found
    for reducer in view.reducers:
        functions = user_of(reducer)
        if functions is None:
            continue
        if isinstance(reducer, ReduceFunction):
            broken = rereduce_breach(view, reducer, some)
        else:
            broken = next(Algebra(view, functions, values_read(view, reducer, some)).breaches(), None)
        if broken is not None:
            return broken
    return None
