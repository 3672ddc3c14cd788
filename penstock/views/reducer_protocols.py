"""What a view knows of its reducers: how contributions become exact totals, and totals a result.

A `Cell` keeps one thing of a group and a `Reducer` reads one or more cells, so that reducers which need the same
share them. There are three kinds: an `Accumulator` adds and takes back; a `TreeCell` has no inverse, so that it is
folded along the group's tree; a `ValueCell` counts the group's values in a second tree. A cell is pure: it sees
columns; where what it makes is kept is the engine's affair. Invariants:

- the state of a group is a function of its contributions alone, in whatever order and batches they came and went, with
  one exception that says so itself (an item that a user's group could not take is listed there);
- a group whose contributions are all gone is at lanes of 0 without a spill;
- no method changes anything that it is given.
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
    """What a cell needs to know of a value."""

    PRESENCE = "presence"
    """Whether it is null."""
    NUMBER = "number"
    """Its number; a value of another kind holds the document, and no such value reaches the cell."""
    VALUE = "value"
    """The value itself."""


class Values(Protocol):
    """A column of values, as cells read it."""

    @property
    def lane(self) -> Ints:
        """An int is its own lane, a float its bits."""
        ...

    @property
    def kind(self) -> NDArray[np.uint8] | None:
        """The kind of each value; None where all are 64-bit ints."""
        ...

    @property
    def objs(self) -> Mapping[int, Any]:
        """What no lane can hold, by its index."""
        ...

    def __len__(self) -> int: ...

    def values(self) -> list[Any]:
        """The values as Python objects."""
        ...


class Part(Protocol):
    """Exact totals of one side of a batch, of a form that only its cell knows."""

    @property
    def m(self) -> int:
        """How many groups it is of."""
        ...


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of m groups.

    `lanes` has a row a lane and a column a group. `spill` has, by group, what does not fit the lanes: a list that
    MessagePack can hold, absent where the lanes say all. `errors` has, by group, why a user's reducer could not take
    something; such a group stays at its last good result.
    """

    lanes: Ints
    spill: dict[int, list[Any]] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)

    @classmethod
    def none(cls, lanes: int, m: int) -> Totals:
        """The totals of m groups without contributions."""
        return cls(np.zeros((lanes, m), np.int64))

    def state(self, group: int) -> State:
        """The totals of one group, as a reducer reads them."""
        return tuple(self.lanes[:, group].tolist()), self.spill.get(group)


class Cell(Protocol):
    """One kept thing: frozen and hashable, so that a view keeps equal cells once."""

    @property
    def field(self) -> Path | None:
        """Which field it reads; None: the value itself."""
        ...

    @property
    def need(self) -> Need:
        """What it needs to know of a value."""
        ...

    @property
    def lanes(self) -> int:
        """How many 64-bit ints a group takes; 0 for all but accumulators."""
        ...

    def merge(self, a: State, b: State) -> State:
        """The state of one group that has the contributions of both."""
        ...


class Accumulator(Cell, Protocol):
    """A cell with an inverse: totals, in lanes and a spill."""

    def batch(self, loc: Locals, m: int, column: Values) -> Part:
        """Exact totals of the column's values by their group `loc`, a number below m; nulls are skipped."""
        ...

    def update(self, old: Totals, plus: Part, minus: Part) -> Totals:
        """The totals of the same m groups with `plus` added and `minus` taken back."""
        ...


class Leaves(Protocol):
    """Contributions of some nodes of trees: those of one node stand together, and no node is without any."""

    @property
    def starts(self) -> Ints:
        """Where the contributions of each node begin."""
        ...

    def column(self, field: Path | None) -> Values:
        """The values of a field, one a contribution; of `TS`, the ts of the documents."""
        ...

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        """Who made the contributions at these indexes: the document's encoded key, and the rank of the value there.

        The rank is that among the document's values for that group.
        """
        ...

    def groups(self) -> list[Any]:
        """The group of each node."""
        ...


class TreeCell(Cell, Protocol):
    """A cell without inverse: a partial for each node of a tree, of contributions or of its children's partials.

    A partial is a document value; null stands for that of contributions that are all skipped. The state of a group is
    the spill that `state` makes of its root's partial, absent where that is null. Partials don't depend on how
    contributions are spread over nodes, as far as the user's functions don't. A node that these fail on has the partial
    that `failed` tells apart, and so have all nodes above it.
    """

    @property
    def beside(self) -> tuple[Path, ...]:
        """Further fields that it reads: `TS`, or paths."""
        ...

    @property
    def runs(self) -> bool:
        """Whether functions of the user's run in it; of any other no partial fails, and a state is [partial]."""
        ...

    def fold(self, leaves: Leaves) -> Values:
        """The partial of each node's contributions."""
        ...

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Values:
        """The partial of each node whose children's partials begin at `starts`; `groups()` are those of the nodes."""
        ...

    def stepped(self, before: Values, came: Values, here: Ints, went: Values, gone: Ints) -> tuple[Values, Mask] | None:
        """The partials of groups with these before, after values came to and went from them, and where that is sure.

        `here` and `gone` say of each value to which of the groups it came, or went from. None where a partial is never
        known without the contributions that stay.
        """
        ...

    def failed(self, partial: Any) -> str | None:
        """Why this partial could not be made; None where it is a partial."""
        ...

    def state(self, partial: Any) -> list[Any] | None:
        """The spill of a group with this partial at its root; raises what the user's functions raise.

        It is made once for each group that changes, and holds all that a reducer shows.
        """
        ...


class ValueCell(Cell, Protocol):
    """A cell that is read from the group's values, each with how often it occurs, in an order of the cell's own.

    Values stand in a tree of their own by `code`. The state of a group is the spill [answer].
    """

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """For each value the 64-bit code by which it is ordered, and the bytes that it shares with its equals alone.

        None where it is skipped. Values of one code are ordered by `sort_key` of their bytes.
        """
        ...

    def sort_key(self, data: bytes) -> Any:
        """What orders values of one code, of their bytes; different bytes never tie."""
        ...

    def asked(self, total: int) -> list[int]:
        """The places, from 0, among `total` values with repetitions in order, that the answer is made of."""
        ...

    def answer(self, total: int, distinct: int, found: Sequence[bytes]) -> list[Any] | None:
        """The spill of a group of so many values, so many of them different, with the bytes at the places asked."""
        ...


def is_accumulator(cell: Cell) -> TypeGuard[Accumulator]:
    """Whether a cell has an inverse; each kind is known by a method that only it has."""
    return hasattr(cell, "update")


def is_tree_cell(cell: Cell) -> TypeGuard[TreeCell]:
    """Whether a cell is folded along trees."""
    return hasattr(cell, "join")


def is_value_cell(cell: Cell) -> TypeGuard[ValueCell]:
    """Whether a cell is read from values and how often they occur."""
    return hasattr(cell, "entries")


TS: Path = ("\0ts",)
"""Stands where a field's path stands, for the ts of the document; no path that a user writes is it."""


class Reducer(Protocol):
    """How the contributions of a group fold into its result."""

    @property
    def field(self) -> Path | None:
        """Which field it reads; None: the value itself."""
        ...

    @property
    def cells(self) -> Sequence[Cell]:
        """What must be kept for it."""
        ...

    def result(self, n: int, states: Sequence[State]) -> Any:
        """The result of a group of n contributions, given one state a cell."""
        ...

    def results(self, n: Ints, lanes: Sequence[Ints]) -> list[Any]:
        """The same of many groups whose states are all in lanes, given for each cell a row a group."""
        ...

    def describe(self) -> dict[str, object]:
        """Enough, as plain data, for a reader that has the store and not the app."""
        ...


@runtime_checkable
class Coded(Protocol):
    """A reducer that runs code of the user's."""

    @property
    def code(self) -> object:
        """The function, or the object with methods, that it runs; None where the app that has it is not at hand."""
        ...
