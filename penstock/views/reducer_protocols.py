"""The protocols of reducers: contributions become exact totals, and totals become a result.

A `Cell` keeps one state per group, and a `Reducer` reads one or more cells. Reducers that need the same state share a
cell. There are three kinds. An `Accumulator` adds and subtracts. A `TreeCell` has no inverse, so it is folded along the
group's tree. A `ValueCell` counts the group's values in a second tree. A cell is pure: it reads columns and returns
states, which the engine stores. Invariants:

- the state of a group depends only on its contributions, not on their order or batches. There is one exception: a group
  lists the items that a user's invertible reducer could not accept;
- a group without contributions has lanes of 0 and no spill;
- no method changes its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Path = tuple[str, ...]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Locals = NDArray[np.int32] | NDArray[np.int64]
State = tuple[tuple[int, ...], list[Any] | None]


class Need(Enum):
    """The part of a value that a cell reads."""

    PRESENCE = "presence"
    """Whether the value is null."""
    NUMBER = "number"
    """The number. If a value is no number, its document is held, and the value does not reach the cell."""
    VALUE = "value"
    """The value itself."""


class Values(Protocol):
    """A column of values, as cells read it."""

    @property
    def lane(self) -> Ints:
        """The lanes: an int is its own lane, a float its bits."""
        ...

    @property
    def kind(self) -> NDArray[np.uint8] | None:
        """The kind of each value, or None if all are 64-bit ints."""
        ...

    @property
    def objs(self) -> Mapping[int, Any]:
        """The values that fit no lane, by index."""
        ...

    def __len__(self) -> int: ...

    def values(self) -> list[Any]:
        """Return the values as Python objects."""
        ...


class SideTotals(Protocol):
    """The exact totals of one side of a batch, in a form that only its cell knows."""

    @property
    def m(self) -> int:
        """The number of its groups."""
        ...


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """The totals of m groups.

    `lanes` has one row per lane and one column per group. `spill` has, by group, the part of a total that does not fit
    the lanes, as a list for MessagePack. It is absent if the lanes hold all. `errors` has, by group, the error of a
    user's reducer. Such a group keeps its last good result.
    """

    lanes: Ints
    spill: dict[int, list[Any]] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)

    @classmethod
    def none(cls, lanes: int, m: int) -> GroupTotals:
        """Return the totals of m groups without contributions."""
        return cls(np.zeros((lanes, m), np.int64))

    def state(self, group: int) -> State:
        """Return the totals of one group, as a reducer reads them."""
        return tuple(self.lanes[:, group].tolist()), self.spill.get(group)


class Cell(Protocol):
    """One stored state per group. A cell is frozen and hashable, so a view stores equal cells once."""

    @property
    def field(self) -> Path | None:
        """The field that it reads, or None for the value itself."""
        ...

    @property
    def need(self) -> Need:
        """The part of a value that it reads."""
        ...

    @property
    def lanes(self) -> int:
        """The number of 64-bit ints per group. It is 0 for all cells but accumulators."""
        ...

    def merge(self, a: State, b: State) -> State:
        """Return the state of one group with the contributions of both states."""
        ...


class Accumulator(Cell, Protocol):
    """A cell with an inverse. Its totals are in lanes and a spill."""

    def batch(self, loc: Locals, m: int, column: Values) -> SideTotals:
        """Return exact totals of the column's values by their group `loc`, a number below m. Nulls are skipped."""
        ...

    def update(self, old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
        """Return the totals of the same m groups with `plus` added and `minus` subtracted."""
        ...


class Leaves(Protocol):
    """The contributions of some tree nodes, sorted by node. Every node has at least one."""

    @property
    def starts(self) -> Ints:
        """The index of each node's first contribution."""
        ...

    def column(self, field: Path | None) -> Values:
        """Return the values of a field, one per contribution. The field `TS` gives the ts of the documents."""
        ...

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        """Return the contribution sources at these indexes: the document's encoded key and the rank.

        The rank counts the document's values for that group.
        """
        ...

    def groups(self) -> list[Any]:
        """Return the group of each node."""
        ...


class TreeCell(Cell, Protocol):
    """A cell without inverse. Each tree node has a partial, folded from contributions or from its children's partials.

    A partial is a document value. It is null if all contributions are skipped. The state of a group is the spill that
    `state` makes of the root's partial. It is absent if that partial is null. A partial does not depend on the
    distribution of contributions over nodes, unless a user's function does. A node on which a user's function fails has
    a partial that `failed` recognises, and so have all nodes above it.
    """

    @property
    def beside(self) -> tuple[Path, ...]:
        """The additional fields that it reads: `TS`, or paths."""
        ...

    @property
    def runs(self) -> bool:
        """True if it runs a user's functions. Otherwise no partial fails, and a state is [partial]."""
        ...

    def fold(self, leaves: Leaves) -> Values:
        """Return the partial of each node's contributions."""
        ...

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Values:
        """Return the partial of each node from its children's partials, which begin at `starts`.

        `groups()` are the nodes' groups.
        """
        ...

    def stepped(self, before: Values, came: Values, here: Ints, went: Values, gone: Ints) -> tuple[Values, Mask] | None:
        """Update the partials `before` of groups by values that came and went. Return the partials and where they are
        certain.

        `here` and `gone` give the group of each value that came or went. Return None if a partial is never known
        without the remaining contributions.
        """
        ...

    def failed(self, partial: Any) -> str | None:
        """Return the error message of a failed partial, or None if it is valid."""
        ...

    def state(self, partial: Any) -> list[Any] | None:
        """Return the spill of a group with this partial at its root. Errors of the user's functions are raised.

        It is called once for each changed group. The spill contains all that a reducer shows.
        """
        ...


class ValueCell(Cell, Protocol):
    """A cell that reads the group's values and their multiplicities, in an order that the cell defines.

    Values are in a separate tree by `code`. The state of a group is the spill [answer].
    """

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """Return for each value its 64-bit order code, and bytes that only equal values share.

        A skipped value gives None. Values of equal code are ordered by `sort_key` of their bytes.
        """
        ...

    def sort_key(self, data: bytes) -> Any:
        """Return the sort key of values of one code, from their bytes. Different bytes never tie."""
        ...

    def asked(self, total: int) -> list[int]:
        """Return the indexes, from 0, that the answer needs among `total` sorted values with repetitions."""
        ...

    def answer(self, total: int, distinct: int, found: Sequence[Any]) -> list[Any] | None:
        """Return the spill of a group from its numbers of values and distinct values, and the bytes asked for.

        A cell that `tallies` gets the tally of all values instead.
        """
        ...

    @property
    def tallies(self) -> bool:
        """True if it reads a tally of the distinct values. Nodes of its tree keep the tallies of their values."""
        ...

    def tallied(self, values: Sequence[bytes]) -> Any:
        """Return the tally of these values, as a document value. All values of one code come together."""
        ...

    def added(self, tallies: Sequence[Any]) -> Any:
        """Return the tally of all values of these tallies."""
        ...


def is_accumulator(cell: Cell) -> TypeGuard[Accumulator]:
    """Return whether a cell has an inverse. Each kind is recognised by a method that only it has."""
    return hasattr(cell, "update")


def is_tree_cell(cell: Cell) -> TypeGuard[TreeCell]:
    """Return whether a cell is folded along trees."""
    return hasattr(cell, "join")


def is_value_cell(cell: Cell) -> TypeGuard[ValueCell]:
    """Return whether a cell reads values and their multiplicities."""
    return hasattr(cell, "entries")


TS: Path = ("\0ts",)
"""The path that stands for the ts of a document. Users can't write it."""


class Reducer(Protocol):
    """The function that folds the contributions of a group into its result."""

    @property
    def field(self) -> Path | None:
        """The field that it reads, or None for the value itself."""
        ...

    @property
    def cells(self) -> Sequence[Cell]:
        """The cells that must be stored for it."""
        ...

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the result of a group of n contributions from one state per cell."""
        ...

    def results(self, n: Ints, lanes: Sequence[Ints]) -> list[Any]:
        """Return the results of many groups whose states fit the lanes. Each cell gives one row per group."""
        ...

    def describe(self) -> dict[str, object]:
        """Return plain data that suffices for a reader that has the store but not the app."""
        ...


@runtime_checkable
class Coded(Protocol):
    """A reducer that runs user code."""

    @property
    def code(self) -> object:
        """The function, or the object with methods, that it runs. None if the app is not available."""
        ...
