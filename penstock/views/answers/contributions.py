"""Explain a group's result by its contributions, each with its document.

Invariants:

- the contributions of a group are in the order of their contribution sources: document key, then rank;
- reducers over these values give the group's result, unless they read the documents' ts;
- documents are read on request, one block at a time, and only one block is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.cache import repr_of

_BLOCK = 256

Progress = Callable[[int, int], None]
"""A progress callback: the number done, and the total."""


class ContributionDocuments:
    """The documents of some contributions, read by key in blocks."""

    __slots__ = ("_block", "_keys", "_read", "_start")

    def __init__(self, keys: Sequence[Any], read: Callable[[Sequence[Any]], list[Any]]) -> None:
        self._keys = keys
        self._read = read
        self._start = -1
        self._block: list[Any] = []

    def at(self, place: int) -> Any:
        """Return the document of the contribution at this index."""
        start = place - place % _BLOCK
        if start != self._start:
            self._block = self._read(self._keys[start : start + _BLOCK])
            self._start = start
        return self._block[place - start]


@dataclass(frozen=True, slots=True, repr=False)
class Contribution:
    """The contribution of one document to a group, as `ViewReader.why` returns it.

    `key` is the document's key, or in a chained view the group of the parent view. `rank` distinguishes the values of
    one document for the group. `value` is the value that the function yielded. In a field view it is the value at
    `value=`, or without that a map of the fields that reducers read. If `held` is true, the view can't accept the
    document as it is now. Then `value` is of the last accepted version, with the fields that reducers read.

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
    _documents: ContributionDocuments | None = field(default=None, compare=False)
    _place: int = field(default=0, compare=False)

    @property
    def document(self) -> Any:
        """The document in the snapshot, which must still be open. In a chained view it is the row of the parent view.

        snap.view("spent").why("Sue")[0].document["amount"]
        """
        return None if self._documents is None else self._documents.at(self._place)

    def __repr__(self) -> str:
        held = ", held=True" if self.held else ""
        return f"Contribution(key={repr_of(self.key)}, rank={self.rank}, value={repr_of(self.value)}{held})"


Why = Callable[[Sequence[bytes], Progress | None], list[list[Contribution]]]
"""Returns the contributions of groups, given by their encodings."""
