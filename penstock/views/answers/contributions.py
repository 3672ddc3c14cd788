"""Why a group has the result that it has: its contributions, each with its document.

Invariants:

- the contributions of a group stand in the order of their sources: document key, then rank;
- reducers over their values give the group's result, as far as they don't read the documents' ts;
- documents are read when they are asked for, a block of them at a time, and only one block is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.cache import repr_of

_BLOCK = 256

Progress = Callable[[int, int], None]
"""Told how much is done, of how much."""


class Documents:
    """The documents of some contributions, by their keys."""

    __slots__ = ("_block", "_keys", "_read", "_start")

    def __init__(self, keys: Sequence[Any], read: Callable[[Sequence[Any]], list[Any]]) -> None:
        self._keys = keys
        self._read = read
        self._start = -1
        self._block: list[Any] = []

    def at(self, place: int) -> Any:
        """The document of the contribution at this place."""
        start = place - place % _BLOCK
        if start != self._start:
            self._block = self._read(self._keys[start : start + _BLOCK])
            self._start = start
        return self._block[place - start]


@dataclass(frozen=True, slots=True, repr=False)
class Contribution:
    """What one document contributes to a group; made by `ViewReader.why`.

    `key` is the document's key, in a view of a view the group there, and `rank` tells the values apart that a document
    has for the group. `value` is what the function yielded; of a field view what is at `value=`, or without that a map
    of the fields that reducers read. `held` says that the view can't take the document as it is now: `value` is then of
    the last version that it could take, as far as reducers read it.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> orders = app.table("orders", key="id")
    >>> spent = orders.view("spent", key="name", value="amount", reduce=ps.sum())
    >>> with ps.open(app, None) as engine:
    ...     counts = engine.put_many("orders", [{"id": i, "name": "Sue", "amount": 5 * i} for i in (2, 1)])
    ...     with engine.snapshot() as snap:
    ...         first, second = snap.view("spent").why("Sue")
    ...         first, second.value, second.document
    (Contribution(key=1, rank=0, value=5), 10, {'id': 2, 'name': 'Sue', 'amount': 10})
    """

    key: Any
    rank: int
    value: Any
    held: bool = False
    _documents: Documents | None = field(default=None, compare=False)
    _place: int = field(default=0, compare=False)

    @property
    def document(self) -> Any:
        """The document as it is in the snapshot, which must be open still; of a view of a view its row.

        snap.view("spent").why("Sue")[0].document["amount"]
        """
        return None if self._documents is None else self._documents.at(self._place)

    def __repr__(self) -> str:
        held = ", held=True" if self.held else ""
        return f"Contribution(key={repr_of(self.key)}, rank={self.rank}, value={repr_of(self.value)}{held})"


Why = Callable[[Sequence[bytes], Progress | None], list[list[Contribution]]]
"""The contributions of groups, by their encodings."""
