"""A user's monoid, and a user's function as CouchDB has them, as cells: Python along a group's tree.

The user's functions run in the middle of a batch, so what they do must not reach beyond their group. A partial of both
is [what the functions made], so that null can be made too, or {"error": why} of a node where they failed. Invariants:

- every argument is a copy of its own: no function sees an object that another group, document or batch holds;
- what functions make is a document value with its maps sorted, the same whether or not it was stored in between;
- nothing raises out of `fold` and `join`: a node that fails, and each node above it, has the partial that says why;
- a node with one child has that child's partial.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from penstock.cache import DefinitionError, canonical, decode_key, said, unpack
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers.contribution_cell import Folded, nodes_of, partials_of
from penstock.mapreduce.reducers.user_group import Functions, own
from penstock.views import Ints, Leaves, ReduceFunction, State, Values

_ERROR = "error"
_ELSEWHERE = "the functions of this reducer are in the app that defined it; open the store with that app"


class MonoidFunctions(Functions):
    """The functions of a monoid, found and checked."""

    __slots__ = ()
    word: ClassVar[str] = "monoid"
    needed: ClassVar[Mapping[str, str]] = {"lift": "(value)", "merge": "(a, b)"}

    def folded(self, values: list[Any]) -> Any:
        """The accumulator of these values."""
        accumulator = self.zero
        for value in values:
            accumulator = self.step(accumulator, value, True)
        return unpack(accumulator)

    def all_merged(self, accumulators: list[Any]) -> Any:
        """The accumulator of the values of all of these."""
        first, *others = map(canonical, accumulators)
        for other in others:
            first = self.merged(first, other)
        return unpack(first)


class _UserFolded(Folded):
    """A cell that runs a user's functions."""

    __slots__ = ()
    runs: ClassVar[bool] = True

    @abstractmethod
    def _run(self) -> Callable[[list[Any]], Any]:
        """What makes one of two or more that the functions made."""

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """What the functions make of each node's children."""
        run = self._run()
        return partials_of([self._together(run, children) for children in nodes_of(starts, partials.values())])

    def _together(self, run: Callable[[list[Any]], Any], partials: list[Any]) -> Any:
        wrong = [partial for partial in partials if self.failed(partial) is not None]
        if wrong or len(partials) < 2:
            return (wrong or partials or [None])[0]
        return _attempt(run, [partial[0] for partial in partials])

    def failed(self, partial: Any) -> str | None:
        """What the functions raised."""
        return str(partial[_ERROR]) if isinstance(partial, dict) else None

    def merge(self, a: State, b: State) -> State:
        """What the functions make of both; where they failed on one, that one."""
        for spill in (a[1], b[1]):
            if spill is not None and self.failed(spill[0]) is not None:
                return (), spill
        return Folded.merge(self, a, b)

    def merged(self, one: Any, two: Any) -> Any:
        """What the functions make of both."""
        return [self._run()([one[0], two[0]])]


def _attempt(make: Callable[..., Any], *given: Any) -> Any:
    """The partial of what is made, or of its failure."""
    try:
        return [make(*given)]
    except Exception as error:
        return {_ERROR: said(error)}


@dataclass(frozen=True, slots=True)
class UserMonoid(_UserFolded):
    """An accumulator of the user's that values can be merged into, and not be taken out of. Nulls are skipped.

    The state is [partial, result].
    """

    functions: MonoidFunctions | None

    def fold(self, leaves: Leaves) -> Column:
        """The accumulator of each node's values."""
        run = self._known()
        nodes = nodes_of(leaves.starts, leaves.column(self.field).values())
        return partials_of([_attempt(run.folded, values) if values else None for values in nodes])

    def state(self, partial: Any) -> list[Any] | None:
        """The accumulator, and what is shown of it."""
        if partial is None:
            return None
        assert self.failed(partial) is None, "a group that failed has no result"
        return [partial, self._known().result(canonical(partial[0]))]

    def _run(self) -> Callable[[list[Any]], Any]:
        return self._known().all_merged

    def _known(self) -> MonoidFunctions:
        if self.functions is None:
            raise DefinitionError(_ELSEWHERE)
        return self.functions


@dataclass(frozen=True, slots=True)
class Rereduced(_UserFolded):
    """What a function makes of a group's values, and then of its own results. It is given nulls too."""

    function: ReduceFunction | None

    def fold(self, leaves: Leaves) -> Column:
        """The function's results over each node's values."""
        known, values = self._known(), leaves.column(self.field).values()
        groups: list[Any] = []
        keys: list[Any] = []
        if known.keys:
            groups = leaves.groups()
            keys = [decode_key(key) for key, _ in leaves.sources(np.arange(len(values)))]
        out: list[Any] = []
        for node, (a, b) in enumerate(pairwise([*leaves.starts.tolist(), len(values)])):
            pairs = [[groups[node], key] for key in keys[a:b]]
            out.append(_attempt(_called, known, pairs, values[a:b], False))
        return partials_of(out)

    def _run(self) -> Callable[[list[Any]], Any]:
        known = self._known()
        return lambda results: _called(known, None, results, True)

    def _known(self) -> ReduceFunction:
        if self.function is None:
            raise DefinitionError(_ELSEWHERE)
        return self.function


def _called(known: ReduceFunction, keys: list[Any] | None, values: list[Any], rereduce: bool) -> Any:
    """What the function gives, as a document value."""
    copies = [own(value) for value in values]
    return own(known.function(keys, copies, rereduce) if known.keys else known.function(copies, rereduce))
