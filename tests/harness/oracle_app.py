"""Translate definitions of the oracle into an app of the package. No other place knows both vocabularies."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import penstock as ps
from tests.oracle import ordered
from tests.oracle import reducers as model
from tests.oracle.tables import Table
from tests.oracle.views import Is, View, Where

_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def app_of(tables: Sequence[Table], views: Sequence[View]) -> ps.App:
    """Return the app with these tables and views."""
    app = ps.App("oracle")
    sources: dict[str, Any] = {
        t.name: app.table(t.name, key=t.key, ts=t.ts, merge=t.merge, tombstones=t.tombstones) for t in tables
    }
    for view in views:
        source = sources[view.source]
        several = isinstance(view.reduce, dict)
        reduce = {n: reducer(r) for n, r in view.reduce.items()} if several else reducer(view.reduce)
        if view.fn:
            sources[view.name] = source.view(view.name, reduce=reduce, sources=view.sources)(view.fn)
        else:
            asked = {"value": view.value} if view.value else {}
            asked |= {"where": condition(view.where)} if view.where else {}
            sources[view.name] = source.view(view.name, key=view.key, reduce=reduce, sources=view.sources, **asked)
    return app


def reducer(spec: Any) -> Any:
    """Return the package's reducer for one of the oracle, or None for an index."""
    match spec:
        case None:
            return None
        case ordered.Function():
            return spec.call
        case ordered.Monoid():
            return ps.monoid(spec.user, spec.field)
        case ordered.First() | ordered.Last():
            return (ps.first if isinstance(spec, ordered.First) else ps.last)(spec.field, by=spec.by)
        case ordered.Top() | ordered.Bottom() | ordered.Collect():
            return getattr(ps, type(spec).__name__.lower())(spec.n, spec.field)
        case ordered.Quantiles():
            return ps.quantiles(spec.qs, spec.field)
        case ordered.Max() | ordered.Min() | ordered.Distinct():
            return getattr(ps, type(spec).__name__.lower())(spec.field)
        case model.Count():
            return ps.count(spec.field)
        case model.Sum():
            return ps.sum(spec.field)
        case model.Mean():
            return ps.mean(spec.field)
        case model.Stddev():
            return ps.stddev(spec.field, ddof=spec.ddof)
        case model.Variance():
            return ps.variance(spec.field, ddof=spec.ddof)
        case model.Histogram():
            return ps.histogram(list(spec.edges), spec.field)
        case model.Group():
            return ps.group(spec.user, spec.field)
    raise AssertionError(f"no reducer for {spec}")


def condition(spec: Is | Where) -> Any:
    """Return the package's `where=` for a condition of the oracle."""
    if isinstance(spec, Is):
        return spec.field if spec.op == "true" else _COMPARE[spec.op](ps.field(spec.field), spec.constant)
    parts = [condition(part) for part in spec.parts]
    if spec.op == "not":
        return ~parts[0]
    return parts[0] & parts[1] if spec.op == "and" else parts[0] | parts[1]
