"""A user-defined monoid and a user's reduce function, as in CouchDB, as cells that run along a group's tree.

The user's functions run inside a batch, so their effects must not reach beyond their group. A partial of both is
[output], so the output can be null, or {"error": message} of a node where they failed. Invariants:

- every argument is a private copy: no function sees an object of another group, document or batch;
- an output is a document value with sorted maps, so storing it does not change it;
- `fold` and `join` raise no user error: a failed node and each node above it have the partial with the message;
- a node with one child has that child's partial.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from penstock.cache import DefinitionError, canonical, decode_key, error_text, unpack
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers.contribution_cell import ContributionCell, nodes_of, partials_of
from penstock.mapreduce.reducers.user_group import Functions, own
from penstock.views import Ints, Leaves, ReduceFunction, State, Values

_ERROR = "error"
_ELSEWHERE = "the functions of this reducer are in the app that defined it; open the store with that app"


class MonoidFunctions(Functions):
    """The functions of a monoid, checked."""

    __slots__ = ()
    word: ClassVar[str] = "monoid"
    needed: ClassVar[Mapping[str, str]] = {"lift": "(value)", "merge": "(a, b)"}

    def folded(self, values: list[Any]) -> Any:
        """Return the accumulator of these values."""
        accumulator = self.zero
        for value in values:
            accumulator = self.step(accumulator, value, True)
        return unpack(accumulator)

    def all_merged(self, accumulators: list[Any]) -> Any:
        """Merge these accumulators to one."""
        first, *others = map(canonical, accumulators)
        for other in others:
            first = self.merged(first, other)
        return unpack(first)


class _UserFolded(ContributionCell):
    """A cell that runs a user's functions."""

    __slots__ = ()
    runs: ClassVar[bool] = True

    @abstractmethod
    def _run(self) -> Callable[[list[Any]], Any]:
        """Return the function that merges two or more outputs."""

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Run the user's functions over the outputs of each node's children."""
        run = self._run()
        return partials_of([self._together(run, children) for children in nodes_of(starts, partials.values())])

    def _together(self, run: Callable[[list[Any]], Any], partials: list[Any]) -> Any:
        wrong = [partial for partial in partials if self.failed(partial) is not None]
        if wrong or len(partials) < 2:
            return (wrong or partials or [None])[0]
        return _attempt(run, [partial[0] for partial in partials])

    def failed(self, partial: Any) -> str | None:
        """Return the message of the functions' error, or None."""
        return str(partial[_ERROR]) if isinstance(partial, dict) else None

    def merge(self, a: State, b: State) -> State:
        """Merge the outputs of two groups. If the functions failed on one group, return its failure."""
        for spill in (a[1], b[1]):
            if spill is not None and self.failed(spill[0]) is not None:
                return (), spill
        return ContributionCell.merge(self, a, b)

    def merged(self, one: Any, two: Any) -> Any:
        """Merge two outputs by the user's functions."""
        return [self._run()([one[0], two[0]])]


def _attempt(make: Callable[..., Any], *given: Any) -> Any:
    """Return the partial with the output, or with the failure."""
    try:
        return [make(*given)]
    except Exception as error:
        return {_ERROR: error_text(error)}


@dataclass(frozen=True, slots=True)
class UserMonoid(_UserFolded):
    """A user's accumulator that supports merge only. Nulls are skipped.

    The state is [partial, result].
    """

    functions: MonoidFunctions | None

    def fold(self, leaves: Leaves) -> Column:
        """Return the accumulator of each node's values."""
        run = self._known()
        nodes = nodes_of(leaves.starts, leaves.column(self.field).values())
        return partials_of([_attempt(run.folded, values) if values else None for values in nodes])

    def state(self, partial: Any) -> list[Any] | None:
        """Return the accumulator and its result."""
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
    """The outputs of a user's function over a group's values and then over its own outputs. Nulls are included."""

    function: ReduceFunction | None

    def fold(self, leaves: Leaves) -> Column:
        """Return the function's output over each node's values."""
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
    """Call the function. Return its output as a document value."""
    copies = [own(value) for value in values]
    return own(known.function(keys, copies, rereduce) if known.keys else known.function(copies, rereduce))
