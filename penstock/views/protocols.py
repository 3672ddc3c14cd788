"""What a view knows of its reducers: how contributions become exact totals, and totals a result.

A `Cell` accumulates one thing and a `Reducer` reads one or more cells, so that reducers which need the same totals
share them. A cell is pure: it sees columns and gives totals; where totals are kept is the engine's affair. Invariants:

- the totals of a group are a function of the multiset of its contributions alone, in whatever order and batches they
  came and went, with one exception that says so itself (an item that a user's reducer could not take is listed there);
- a group whose contributions are all gone is at lanes of 0 without a spill;
- `update` changes nothing that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Path = tuple[str, ...]
Ints = NDArray[np.int64]
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
    """One accumulated thing: frozen and hashable, so that a view keeps equal cells once."""

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
        """How many 64-bit ints a group takes."""
        ...

    def batch(self, loc: Locals, m: int, column: Values) -> Part:
        """Exact totals of the column's values by their group `loc`, a number below m; nulls are skipped."""
        ...

    def update(self, old: Totals, plus: Part, minus: Part) -> Totals:
        """The totals of the same m groups with `plus` added and `minus` taken back."""
        ...

    def merge(self, a: State, b: State) -> State:
        """The state of one group that has the contributions of both."""
        ...


class Reducer(Protocol):
    """How the contributions of a group fold into its result."""

    @property
    def field(self) -> Path | None:
        """Which field it reads; None: the value itself."""
        ...

    @property
    def cells(self) -> Sequence[Cell]:
        """What must be accumulated for it."""
        ...

    def result(self, n: int, states: Sequence[State]) -> Any:
        """The result of a group of n contributions, given one state a cell."""
        ...

    def describe(self) -> dict[str, object]:
        """Enough, as plain data, for a reader that has the store and not the app."""
        ...
