"""Check the laws of a user's invertible reducer or monoid, on accumulators of values from documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any

from penstock.recovery import Reducing, emission, identity, read_by, sort_place, value_of
from penstock.testing.laws.laws import Breach, Law, Pair, distinct, same
from penstock.views import View

_VALUES, _SUMS = 12, 6


def values_read(view: View, reducer: Reducing, docs: Iterable[Pair]) -> list[tuple[Any, Pair]]:
    """Return the values that a reducer reads from documents, each with the smallest document that has it."""
    found: dict[Any, tuple[Any, Pair]] = {}
    for pair in docs:
        try:
            pairs = emission(view, *pair)
        except Exception:
            continue
        for _, value in pairs:
            read = read_by(view, reducer, value)
            if read is not None:
                found.setdefault(identity(read), (read, pair))
    return sorted(found.values(), key=lambda entry: (len(repr(entry[0])), sort_place(entry[0])))[:_VALUES]


@dataclass(frozen=True, slots=True)
class _Sum:
    """An accumulator, and the documents whose values it contains."""

    total: Any
    docs: tuple[Pair, ...]


class Algebra:
    """The laws of one reducer, checked on accumulators of real values."""

    def __init__(self, view: View, functions: Any, values: Sequence[tuple[Any, Pair]]) -> None:
        self._view = view.name
        self._user = functions
        self._values = values
        self._spoilt: str = ""

    def breaches(self) -> Iterator[Breach]:
        """Yield the broken laws, the simplest first."""
        ones = [s for s in (self._lifted(value, pair) for value, pair in self._values) if s is not None]
        yield from self._while_lifting()
        yield from self._spoils(ones)
        small = ones[:_SUMS]
        both = [s for s in (self._merged(a, b) for a, b in product(small, small)) if s is not None]
        checks: list[Callable[[], Iterator[Breach]]] = [
            lambda: self._neutral(ones),
            lambda: self._commutes(product(ones, ones)),
            lambda: self._associates(product(small, small, small)),
            lambda: self._inverts(product([*ones, *both[:_SUMS]], ones)),
        ]
        for check in checks:
            yield from check()

    # -- the laws

    def _while_lifting(self) -> Iterator[Breach]:
        for value, pair in self._values:
            one, other = (self._call("lift", value) for _ in "12")
            yield from self._in_place((pair,))
            if one is not None and other is not None and identity(one[0]) != identity(other[0]):
                reason = f"lift({value!r}) gives {one[0]!r}, and then {other[0]!r}"
                yield Breach(self._view, Law.UNSTEADY, reason, (pair,))

    def _spoils(self, sums: Sequence[_Sum]) -> Iterator[Breach]:
        for s in sums:
            if hasattr(self._user, "result"):
                self._call("result", s.total)
                yield from self._in_place(s.docs)
        for a, b in product(sums[:_SUMS], sums[:_SUMS]):
            for name in ("merge", "unmerge"):
                if hasattr(self._user, name):
                    self._call(name, a.total, b.total)
                    yield from self._in_place((*a.docs, *b.docs))

    def _in_place(self, docs: tuple[Pair, ...]) -> Iterator[Breach]:
        spoilt, self._spoilt = self._spoilt, ""
        if spoilt:
            yield Breach(self._view, Law.IN_PLACE, spoilt, _docs(*docs))

    def _neutral(self, sums: Iterable[_Sum]) -> Iterator[Breach]:
        zero = value_of(deepcopy(self._user.zero() if callable(self._user.zero) else self._user.zero))
        for s in sums:
            for left, right in ((zero, s.total), (s.total, zero)):
                got = self._call("merge", left, right)
                if got is not None and identity(got[0]) != identity(s.total):
                    reason = f"its zero is {zero!r}, and merge({left!r}, {right!r}) gives {got[0]!r}"
                    yield Breach(self._view, Law.ZERO, reason, s.docs)

    def _commutes(self, pairs: Iterable[tuple[_Sum, _Sum]]) -> Iterator[Breach]:
        for a, b in pairs:
            one, other = self._call("merge", a.total, b.total), self._call("merge", b.total, a.total)
            if one is not None and other is not None and identity(one[0]) != identity(other[0]):
                reason = f"merge({a.total!r}, {b.total!r}) gives {one[0]!r}, the other way round {other[0]!r}"
                yield Breach(self._view, Law.ORDER, reason, _docs(*a.docs, *b.docs))

    def _associates(self, triples: Iterable[tuple[_Sum, _Sum, _Sum]]) -> Iterator[Breach]:
        for a, b, c in triples:
            ab, bc = self._merged(a, b), self._merged(b, c)
            if ab is None or bc is None:
                continue
            one, other = self._call("merge", ab.total, c.total), self._call("merge", a.total, bc.total)
            if one is not None and other is not None and identity(one[0]) != identity(other[0]):
                what = f"of {a.total!r}, {b.total!r} and {c.total!r}"
                floats = "; only by rounding, which ps.sum() has none of" if _near(one[0], other[0]) else ""
                reason = f"{what} merging the first two first gives {one[0]!r}, the last two first {other[0]!r}{floats}"
                yield Breach(self._view, Law.GROUPING, reason, _docs(*a.docs, *b.docs, *c.docs))

    def _inverts(self, pairs: Iterable[tuple[_Sum, _Sum]]) -> Iterator[Breach]:
        if not hasattr(self._user, "unmerge"):
            return
        for a, b in pairs:
            ab = self._merged(a, b)
            got = None if ab is None else self._call("unmerge", ab.total, b.total)
            if ab is not None and got is not None and identity(got[0]) != identity(a.total):
                reason = f"unmerge({ab.total!r}, {b.total!r}) gives {got[0]!r}, not {a.total!r}, which it was made of"
                yield Breach(self._view, Law.INVERSE, reason, _docs(*a.docs, *b.docs))

    # -- calls

    def _lifted(self, value: Any, pair: Pair) -> _Sum | None:
        got = self._call("lift", value)
        return None if got is None else _Sum(got[0], (pair,))

    def _merged(self, a: _Sum, b: _Sum) -> _Sum | None:
        got = self._call("merge", a.total, b.total)
        return None if got is None else _Sum(got[0], (*a.docs, *b.docs))

    def _call(self, name: str, *args: Any) -> tuple[Any] | None:
        """Call a function of the reducer. Return its result in a tuple, or None if it raises.

        An error breaks no law: it only holds a group.
        """
        own = [value_of(deepcopy(arg)) for arg in args]
        try:
            out = value_of(deepcopy(getattr(self._user, name)(*own)))
        except Exception:
            return None
        for number, (before, after) in enumerate(zip(args, own, strict=True)):
            if not same(before, after):
                which = "its argument" if len(args) == 1 else f"its {('first', 'second')[number]} argument"
                self._spoilt = f"{name} changes {which}, {before!r}, into {after!r}; let it give back another"
        return (out,)


def _near(one: Any, other: Any) -> bool:
    return isinstance(one, float) and isinstance(other, float) and math.isclose(one, other)


def _docs(*docs: Pair) -> tuple[Pair, ...]:
    return tuple(distinct(docs))
