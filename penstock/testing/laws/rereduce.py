"""Check the laws of a CouchDB reduce function: its result over partial results equals its result over all values.

This must hold however the values are grouped and ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import product
from typing import Any

from penstock.recovery import identity, value_of
from penstock.testing.laws.algebra import values_read
from penstock.testing.laws.laws import Breach, Law, Pair, distinct, same
from penstock.views import ReduceFunction, View

_FEW = 5
_Value = tuple[Any, Pair]


def rereduce_breach(view: View, function: ReduceFunction, docs: Sequence[Pair]) -> Breach | None:
    """Return the first law that a function breaks on the values of these documents, or None."""
    values = values_read(view, function, docs)[:_FEW]
    return next(_breaches(view.name, function, values), None)


def _breaches(view: str, function: ReduceFunction, values: Sequence[_Value]) -> Iterator[Breach]:
    for a in values:
        yield from _pure(view, function, [a])
    for a, b in product(values, values):
        yield from _pure(view, function, [a, b])
        one, other = _call(function, [a, b]), _call(function, [b, a])
        if one is not None and other is not None and not same(one[0], other[0]):
            reason = f"over {[a[0], b[0]]!r} it gives {one[0]!r}, over {[b[0], a[0]]!r} {other[0]!r}"
            yield Breach(view, Law.ORDER, reason, _docs(a, b))
        yield from _grouped(view, function, [[a], [b]])
    for a, b, c in product(values, values, values):
        yield from _grouped(view, function, [[a, b], [c]])


def _grouped(view: str, function: ReduceFunction, parts: list[list[_Value]]) -> Iterator[Breach]:
    """Compare the result over partial results with the result over all values at once."""
    every = [value for part in parts for value in part]
    whole = _call(function, every)
    results = [_call(function, part) for part in parts]
    if whole is None or any(result is None for result in results):
        return
    given = [result[0] for result in results if result is not None]
    together = _rereduced(function, given)
    if together is not None and not same(together[0], whole[0]):
        groups = " and ".join(repr([value for value, _ in part]) for part in parts)
        reason = f"of {groups} it makes {given!r}, and of these {together[0]!r}; but of all at once {whole[0]!r}"
        yield Breach(view, Law.GROUPING, reason, _docs(*every))


def _pure(view: str, function: ReduceFunction, values: list[_Value]) -> Iterator[Breach]:
    own = [value_of(value) for value, _ in values]
    before = deepcopy(own)
    try:
        once = value_of(deepcopy(_run(function, values, own)))
    except Exception:
        return
    if not same(before, own):
        reason = f"it changes the values that it is given, {before!r}, into {own!r}; let it work on a copy"
        yield Breach(view, Law.IN_PLACE, reason, _docs(*values))
    again = _call(function, values)
    if again is not None and identity(again[0]) != identity(once):
        yield Breach(view, Law.UNSTEADY, f"over {before!r} it gives {once!r}, and then {again[0]!r}", _docs(*values))


def _call(function: ReduceFunction, values: list[_Value]) -> tuple[Any] | None:
    """Call the function on values. Return its result in a tuple, or None if it raises.

    An error breaks no law: it only holds a group.
    """
    try:
        return (value_of(deepcopy(_run(function, values, [value_of(value) for value, _ in values]))),)
    except Exception:
        return None


def _run(function: ReduceFunction, values: list[_Value], own: list[Any]) -> Any:
    if function.keys:
        return function.function([["group", key] for _, (key, _) in values], own, False)
    return function.function(own, False)


def _rereduced(function: ReduceFunction, results: list[Any]) -> tuple[Any] | None:
    own = [value_of(result) for result in results]
    try:
        out = function.function(None, own, True) if function.keys else function.function(own, True)
        return (value_of(deepcopy(out)),)
    except Exception:
        return None


def _docs(*values: _Value) -> tuple[Pair, ...]:
    return tuple(distinct(pair for _, pair in values))
