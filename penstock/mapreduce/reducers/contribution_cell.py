"""The base of cells without an inverse, which are folded along a tree.

Such a cell has no lanes. Its partials are document values in a column, one per node. A partial is null if the node's
contributions are all skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.columns.items import Mask
from penstock.views import Ints, Leaves, Need, Path, State, Values


@dataclass(frozen=True, slots=True)
class ContributionCell(ABC):
    """A cell that is folded along a tree."""

    field: Path | None
    runs: ClassVar[bool] = False

    @property
    def need(self) -> Need:
        """Require the value itself."""
        return Need.VALUE

    @property
    def lanes(self) -> int:
        """Return 0: a state is only a spill."""
        return 0

    @property
    def beside(self) -> tuple[Path, ...]:
        """Return the extra fields that the cell reads: none."""
        return ()

    @abstractmethod
    def fold(self, leaves: Leaves) -> Column:
        """Fold each node's contributions to its partial."""

    @abstractmethod
    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Join children's partials to the partial of each node. A node's children begin at `starts`."""

    def stepped(self, before: Values, came: Values, here: Ints, went: Values, gone: Ints) -> tuple[Column, Mask] | None:
        """Return the next partials if they follow without the tree. Here they never do."""
        return None

    def failed(self, partial: Any) -> str | None:
        """Return the message of a failure. Without user functions there is none."""
        return None

    def state(self, partial: Any) -> list[Any] | None:
        """Return the spill of a group with this partial."""
        return None if partial is None else [partial]

    def merge(self, a: State, b: State) -> State:
        """Merge the partials of two groups. Errors of user functions are raised."""
        (_, one), (_, two) = a, b
        if one is None or two is None:
            return (), two if one is None else one
        return (), self.state(self.merged(one[0], two[0]))

    def merged(self, one: Any, two: Any) -> Any:
        """Join the partials of two groups. Unlike two nodes, they may have the same sources."""
        partials = Column.of([one, two])
        return self.join(np.zeros(1, np.int64), partials, lambda: [None]).values()[0]


def column_of(values: Values) -> Column:
    """Return the values as a column that supports `take`."""
    return values if isinstance(values, Column) else Column(values.lane, values.kind, dict(values.objs))


def nodes_of(starts: Ints, values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the values of each node that are not null."""
    for a, b in pairwise([*starts.tolist(), len(values)]):
        yield [v for v in values[a:b] if v is not None]


def node_numbers(starts: Ints, n: int) -> Ints:
    """Return the node of each of n rows."""
    return np.repeat(np.arange(starts.size), np.diff(np.append(starts, n)))


def partials_of(values: Sequence[Any]) -> Column:
    """Return partials that are not numbers as a column."""
    kind = np.fromiter((LaneKind.NULL if v is None else LaneKind.OTHER for v in values), np.uint8, len(values))
    objs = {i: v for i, v in enumerate(values) if v is not None}
    return Column(np.zeros(len(values), np.int64), kind, objs)
