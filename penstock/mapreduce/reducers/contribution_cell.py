"""What cells without an inverse have in common: how they are laid out, and two states as one.

A cell of these keeps no lanes; its partials are document values in a column, one a node, null where every contribution
of a node is skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from penstock.mapreduce.columns.column import Column, Kind
from penstock.mapreduce.columns.items import Mask
from penstock.views import Ints, Leaves, Need, Path, State, Values


@dataclass(frozen=True, slots=True)
class Folded(ABC):
    """A cell that is folded along a tree."""

    field: Path | None
    runs: ClassVar[bool] = False

    @property
    def need(self) -> Need:
        """The value itself."""
        return Need.VALUE

    @property
    def lanes(self) -> int:
        """None: a state is its spill."""
        return 0

    @property
    def beside(self) -> tuple[Path, ...]:
        """Nothing but its field."""
        return ()

    @abstractmethod
    def fold(self, leaves: Leaves) -> Column:
        """The partial of each node's contributions."""

    @abstractmethod
    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """The partial of each node whose children's partials begin at `starts`."""

    def stepped(self, before: Values, came: Values, here: Ints, went: Values, gone: Ints) -> tuple[Column, Mask] | None:
        """It is not known without the tree."""
        return None

    def failed(self, partial: Any) -> str | None:
        """Nothing of the user's runs in it, so nothing fails."""
        return None

    def state(self, partial: Any) -> list[Any] | None:
        """The partial."""
        return None if partial is None else [partial]

    def merge(self, a: State, b: State) -> State:
        """The partials of both as one; raises what the user's functions raise."""
        (_, one), (_, two) = a, b
        if one is None or two is None:
            return (), two if one is None else one
        return (), self.state(self.merged(one[0], two[0]))

    def merged(self, one: Any, two: Any) -> Any:
        """The partial of two groups together. Unlike two nodes, they may have the same sources."""
        partials = Column.of([one, two])
        return self.join(np.zeros(1, np.int64), partials, lambda: [None]).values()[0]


def column_of(values: Values) -> Column:
    """The values as a column that rows can be taken of."""
    return values if isinstance(values, Column) else Column(values.lane, values.kind, dict(values.objs))


def nodes_of(starts: Ints, values: Sequence[Any]) -> Iterator[list[Any]]:
    """The values of each node that are not null."""
    for a, b in pairwise([*starts.tolist(), len(values)]):
        yield [v for v in values[a:b] if v is not None]


def node_numbers(starts: Ints, n: int) -> Ints:
    """The node of each of n rows."""
    return np.repeat(np.arange(starts.size), np.diff(np.append(starts, n)))


def partials_of(values: Sequence[Any]) -> Column:
    """Partials that are no numbers, as a column."""
    kind = np.fromiter((Kind.NULL if v is None else Kind.OTHER for v in values), np.uint8, len(values))
    objs = {i: v for i, v in enumerate(values) if v is not None}
    return Column(np.zeros(len(values), np.int64), kind, objs)
