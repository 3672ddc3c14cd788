"""A shadow: a view rebuilt from nothing in its own store, to compare its rows and nodes with the stored view.

The engine's reducers build it from the contributions of the documents. `RebuildListener` spools the contributions that
arrive meanwhile, in memory while they are few, so that the shadow can catch up. A partitioned store has one shadow per
partition, with the groups that the partition owns. Invariants:

- the shadow of a right view has the same rows and nodes, byte for byte;
- the memory of a shadow is bounded: large dictionaries are emptied.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np

from penstock.cache import Store, pack, unpack
from penstock.mapreduce import (
    Contributions,
    Delta,
    Groups,
    KeyRanges,
    Part,
    ReduceNode,
    Spaces,
    TreeReduce,
    ViewNode,
    Writes,
    negated,
    node_log_db,
    side_data,
    side_of,
)
from penstock.views import FieldMap, Path, View

_MOST = 64 << 20  # bytes of dictionaries and cached rows
_SPOOL = 16 << 20
_Sums = tuple[list[bytes], list[Any], list[Any]]  # groups; added and removed contributions, as (codes, leaf)


class Dictionaries:
    """The dictionaries of a view that is being rebuilt: codes of its groups and of the values that it reads.

    With `asked` those groups have the first codes. Large dictionaries are emptied and start again.
    """

    def __init__(self, view: View, number: int, asked: Sequence[bytes] | None) -> None:
        self.view = view
        self.asked = None if asked is None else list(asked)
        self.spaces = Spaces()
        self.node = ViewNode(view, number, self.spaces if isinstance(view.map, FieldMap) else None, True)
        self._ask()

    @property
    def most(self) -> int | None:
        """Return the number of requested groups: their codes are below it. None if all are requested."""
        return None if self.asked is None else len(self.asked)

    def _ask(self) -> None:
        for place, group in enumerate(self.asked or ()):
            code = self.node.groups.code_of_encoded(group)
            assert code == place, "groups are asked for once each, and first"

    @property
    def fields(self) -> tuple[Path | None, ...]:
        """Return the columns of its contributions."""
        return self.node.crossing_fields

    def bound(self, most: int) -> None:
        """Empty the dictionaries if they take more than `most` bytes."""
        if self.node.nbytes(spaces=True) > most:
            self.spaces = Spaces()
            self.node.forget(self.spaces if isinstance(self.view.map, FieldMap) else None)
            self._ask()


class Shadow(Dictionaries):
    """One rebuilt view, or its `asked` groups; `number` names its databases in its own store."""

    def __init__(self, view: View, number: int, store: Store, asked: Sequence[bytes] | None, most: int = _MOST) -> None:
        super().__init__(view, number, asked)
        self.store = store
        self._bytes = most

    def add(self, plus: Contributions, minus: Contributions | None = None) -> None:
        """Add contributions, and retract others."""
        if not plus.n and (minus is None or not minus.n):
            return
        writes = Writes()
        none = plus.take(np.zeros(0, np.int64))
        with self.store.write() as writer:
            self.node.advance(writer, plus, none if minus is None else minus, writes)
            writes.write(writer)
        writes.committed()
        self.bound(self._bytes)

    def add_of(self, groups: Groups, plus: Contributions) -> None:
        """Add contributions whose codes belong to another dictionary."""
        known = self.node.groups
        codes, places = np.unique(plus.code, return_inverse=True)
        own = np.array([known.code_of_encoded(groups.whole(code)) for code in codes.tolist()], np.int32)
        self.add(Contributions(own[places.ravel()], plus.inputs, plus.sources))

    def hear(self, sums: _Sums, wanted: frozenset[bytes] | None) -> None:
        """Apply spooled contributions, for all groups or for the wanted ones."""
        groups, came, went = sums
        if wanted is not None and wanted.isdisjoint(groups):
            return
        known = self.node.groups
        listed = [known.code_of_encoded(g) if wanted is None or g in wanted else -1 for g in groups]
        codes = np.array(listed, np.int32)
        plus, minus = (side_of(side, codes, self.fields) for side in (came, went))
        self.add(plus, minus)

    def take_off(self, part: Part, wanted: frozenset[bytes] | None) -> None:
        """Retract the contributions of a production in flight, for all groups or for the wanted ones."""
        _, names, delta, came, went = part
        if delta is None:
            self.hear((names, went, came), wanted)
            return
        assert isinstance(self.node.reduce, ReduceNode), "others are not told sums"
        at = [i for i, name in enumerate(names) if wanted is None or name in wanted]
        if not at:
            return
        codes = np.array([self.node.groups.code_of_encoded(name) for name in names], np.int64)
        off = negated(self.node.reduce.cells, Delta.of_data(codes, delta)).take(np.array(at, np.int64))
        none, writes = self.node.reduce.none(), Writes()
        with self.store.write() as writer:
            change = self.node.reduce.folded(writer, self.node.groups, none, none, [off])
            self.node.take(writer, change, writes)
            writes.write(writer)
        writes.committed()

    def flush(self) -> None:
        """Write the deferred nodes, if there are any."""
        reduce = self.node.reduce
        if not isinstance(reduce, TreeReduce):
            return
        with self.store.read() as reader:
            behind = reader.count(node_log_db(self.node.number))
        if behind:
            with self.store.write() as writer:
                reduce.read_node_log(writer).write_all(writer, {})
            reduce.forget()


class Shadows(Dictionaries):
    """A view rebuilt in several stores: each has the groups that one partition owns.

    Each shadow covers all requested groups, so a group stored in the wrong partition is found.
    """

    def __init__(
        self, view: View, number: int, stores: Sequence[Store], asked: Sequence[bytes] | None, ranges: KeyRanges
    ) -> None:
        super().__init__(view, number, asked)
        self._ranges = ranges
        self._bytes = _MOST // (1 + len(stores))
        self.each = [Shadow(view, number, store, asked, self._bytes) for store in stores]

    def add(self, plus: Contributions) -> None:
        """Add contributions, each in the store of its group's owner."""
        if not plus.n:
            return
        groups = self.node.groups
        owners = groups.owners(self._ranges)[plus.code]
        for owner in np.unique(owners).tolist():
            self.each[owner].add_of(groups, plus.take(owners == owner))
        self.bound(self._bytes)


class RebuildListener:
    """The contributions that arrive while a shadow is built, for all groups or the `asked` ones.

    If `lost` is set, some may be missing, and the shadow must be rebuilt.
    """

    def __init__(self, fields: Sequence[Path | None], asked: Sequence[bytes] | None, spool: IO[bytes]) -> None:
        self._fields = tuple(fields)
        self._asked = None if asked is None else frozenset(asked)
        self._turn = threading.Lock()
        self._spool = spool
        self._read = 0
        self.lost = False

    def committed(self, groups: Groups, plus: Contributions, minus: Contributions) -> None:
        """Spool contributions that were added and removed."""
        known: dict[int, int] = {}
        names: list[bytes] = []
        sides = [self._side(groups, side, known, names) for side in (plus, minus)]
        if not names:
            return
        data = pack([names, *sides])
        with self._turn:
            self._spool.seek(0, 2)
            self._spool.write(len(data).to_bytes(8, "big") + data)

    def _side(self, groups: Groups, side: Contributions, known: dict[int, int], names: list[bytes]) -> list[Any]:
        codes = np.full(side.n, -1, np.int64)
        for i, code in enumerate(side.code.tolist()):
            place = known.get(code)
            if place is None:
                whole = groups.whole(code)
                place = -1
                if self._asked is None or whole in self._asked:
                    place = len(names)
                    names.append(whole)
                known[code] = place
            codes[i] = place
        return side_data(side.take(np.flatnonzero(codes >= 0)), codes[codes >= 0], self._fields)

    def drain(self) -> Iterator[_Sums]:
        """Yield the spooled contributions that were not read yet."""
        while True:
            with self._turn:
                self._spool.seek(self._read)
                size = int.from_bytes(self._spool.read(8), "big")
                if not size:
                    self._spool.seek(0)
                    self._spool.truncate()
                    self._read = 0
                    return
                data = self._spool.read(size)
                self._read += 8 + size
            names, came, went = unpack(data)
            yield names, came, went


@contextmanager
def hearing(fields: Sequence[Path | None], asked: Sequence[bytes] | None) -> Iterator[RebuildListener]:
    """Open a spool for the contributions to a view with these columns, for all groups or the `asked` ones."""
    with SpooledTemporaryFile(max_size=_SPOOL) as spool:
        yield RebuildListener(fields, asked, spool)
