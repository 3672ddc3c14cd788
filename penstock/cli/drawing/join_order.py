"""The order in which a join of many sides connects them: the entries of its prefixes, and a better order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.engine import Snapshot
from penstock.views import Join, Source, View

__all__ = ["better_order", "order_facts"]


def order_facts(snap: Snapshot, join: Join) -> Iterator[tuple[str, str]]:
    """Yield the entries of each prefix of a join, and a better order if the sizes of its sides suggest one."""
    for stage in join.stages[:-1]:
        shown = " with ".join(side.name for side in stage.sides)
        n = sum(rows.i.size for own, reader in snap.stored_joins(stage.name) for rows in own.rows(reader))
        yield "prefix", f"{shown}: {n:,} entr{'y' if n == 1 else 'ies'}"
    sizes = {side.name: _size(snap, side.source) for side in join.sides}
    better = better_order(join, sizes)
    if better is not None:
        yield "better order", f"{', then '.join(better)}: write their conditions first in on=, for smaller prefixes"


def better_order(join: Join, sizes: Mapping[str, int]) -> list[str] | None:
    """Return an order of the sides with smaller prefixes, or None. A prefix has about the entries of its largest side.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> tables = {name: app.table(name, key="id") for name in ("line", "order", "customer")}
    >>> on = {"line.order": "order.id", "order.customer": "customer.id"}
    >>> better_order(app.join("all", on=on, **tables), {"line": 9000, "order": 2000, "customer": 50})
    ['order', 'customer', 'line']
    """
    first, steps = join.steps()
    now = [join.sides[i].name for i in (first, *(step.side for step in steps))]
    pairs = [(one[0], other[0]) for one, other in join.on]
    best = list(min(pairs, key=lambda pair: max(sizes[name] for name in pair)))
    while len(best) < len(now):
        near = [name for pair in pairs for name in pair if name not in best and not set(pair).isdisjoint(best)]
        best.append(min(near, key=sizes.__getitem__))
    return best if _cost(best, sizes) < _cost(now, sizes) else None


def _cost(order: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Return about how many entries the prefixes of an order have."""
    return sum(max(sizes[name] for name in order[:n]) for n in range(2, len(order)))


def _size(snap: Snapshot, source: Source) -> int:
    """Return the number of documents, groups or rows of a side."""
    if isinstance(source, Join):
        return sum(rows.i.size for own, reader in snap.stored_joins(source.name) for rows in own.rows(reader))
    return len(snap.view(source.name)) if isinstance(source, View) else len(snap.table(source.name))
