"""A view built once more from nothing, in a store of its own: what a view should have, row by row and node by node.

It is built by the reducers of the engine, from what documents contribute, and stands beside the view until the two have
been held against each other. `Heard` is what the view was told meanwhile, so that the shadow can follow it: a spool of
contributions, in memory as long as they are few. Of a store of several partitions there is a shadow for each, of the
groups that it owns. Invariants:

- the shadow of a view that is right has the same rows and nodes, byte for byte;
- what memory holds of a shadow is bounded: its dictionaries begin anew once they are large.
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
    Part,
    Ranges,
    ReduceNode,
    Spaces,
    TreeReduce,
    ViewNode,
    Writes,
    behind_db,
    negated,
    side_data,
    side_of,
)
from penstock.views import FieldMap, Path, View

_MOST = 64 << 20  # bytes of dictionaries and rows that are remembered
_SPOOL = 16 << 20
Told = tuple[list[bytes], list[Any], list[Any]]  # groups; what came and what went, as (codes, leaf)


class Dictionaries:
    """What contributions to one view are named by while it is built beside itself: its groups, and what they read.

    With `asked` those groups have the first codes. They begin anew once they are large.
    """

    def __init__(self, view: View, number: int, asked: Sequence[bytes] | None) -> None:
        self.view = view
        self.asked = None if asked is None else list(asked)
        self.spaces = Spaces()
        self.node = ViewNode(view, number, self.spaces if isinstance(view.map, FieldMap) else None, True)
        self._ask()

    @property
    def most(self) -> int | None:
        """The codes below this are those of the groups asked for."""
        return None if self.asked is None else len(self.asked)

    def _ask(self) -> None:
        for place, group in enumerate(self.asked or ()):
            code = self.node.groups.code_of_encoded(group)
            assert code == place, "groups are asked for once each, and first"

    @property
    def fields(self) -> tuple[Path | None, ...]:
        """The columns of its contributions."""
        return self.node.crossing_fields

    def bound(self, most: int) -> None:
        """Begin anew where they take more than so many bytes."""
        if self.node.nbytes(spaces=True) > most:
            self.spaces = Spaces()
            self.node.forget(self.spaces if isinstance(self.view.map, FieldMap) else None)
            self._ask()


class Shadow(Dictionaries):
    """One view, or with `asked` those of its groups; `number` names its databases in the store of its own."""

    def __init__(self, view: View, number: int, store: Store, asked: Sequence[bytes] | None, most: int = _MOST) -> None:
        super().__init__(view, number, asked)
        self.store = store
        self._bytes = most

    def add(self, plus: Contributions, minus: Contributions | None = None) -> None:
        """Add contributions, and take some back."""
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
        """Add contributions whose codes are those of other groups."""
        known = self.node.groups
        codes, places = np.unique(plus.code, return_inverse=True)
        own = np.array([known.code_of_encoded(groups.whole(code)) for code in codes.tolist()], np.int32)
        self.add(Contributions(own[places.ravel()], plus.inputs, plus.sources))

    def hear(self, told: Told, wanted: frozenset[bytes] | None) -> None:
        """Take what the view was told, as far as it is of groups that are wanted."""
        groups, came, went = told
        if wanted is not None and wanted.isdisjoint(groups):
            return
        known = self.node.groups
        listed = [known.code_of_encoded(g) if wanted is None or g in wanted else -1 for g in groups]
        codes = np.array(listed, np.int32)
        plus, minus = (side_of(side, codes, self.fields) for side in (came, went))
        self.add(plus, minus)

    def take_off(self, part: Part, wanted: frozenset[bytes] | None) -> None:
        """Take off what a part of a production brings, of all groups or of those that are wanted: it is on its way."""
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
        """Write the nodes that are behind; where there are none, nothing is written."""
        reduce = self.node.reduce
        if not isinstance(reduce, TreeReduce):
            return
        with self.store.read() as reader:
            behind = reader.count(behind_db(self.node.number))
        if behind:
            with self.store.write() as writer:
                reduce.read_behind(writer).write_all(writer, {})
            reduce.forget()


class Shadows(Dictionaries):
    """A view beside itself in several stores, in each the groups that one partition owns.

    Each is asked of all groups that are asked for, so that one which lies where it is not owned is seen to.
    """

    def __init__(
        self, view: View, number: int, stores: Sequence[Store], asked: Sequence[bytes] | None, ranges: Ranges
    ) -> None:
        super().__init__(view, number, asked)
        self._ranges = ranges
        self._bytes = _MOST // (1 + len(stores))
        self.each = [Shadow(view, number, store, asked, self._bytes) for store in stores]

    def add(self, plus: Contributions) -> None:
        """Add contributions, each where its group is owned."""
        if not plus.n:
            return
        groups = self.node.groups
        owners = groups.owners(self._ranges)[plus.code]
        for owner in np.unique(owners).tolist():
            self.each[owner].add_of(groups, plus.take(owners == owner))
        self.bound(self._bytes)


class Heard:
    """What a view is told while its shadow is made: of all groups, or of those `asked` for.

    Once `lost` is set something may be missing, and the shadow has to be made again.
    """

    def __init__(self, fields: Sequence[Path | None], asked: Sequence[bytes] | None, spool: IO[bytes]) -> None:
        self._fields = tuple(fields)
        self._asked = None if asked is None else frozenset(asked)
        self._turn = threading.Lock()
        self._spool = spool
        self._read = 0
        self.lost = False

    def told(self, groups: Groups, plus: Contributions, minus: Contributions) -> None:
        """These contributions came and these went."""
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

    def drain(self) -> Iterator[Told]:
        """What was told and not given yet."""
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
def hearing(fields: Sequence[Path | None], asked: Sequence[bytes] | None) -> Iterator[Heard]:
    """Who hears what a view with these columns is told, of all groups or of those asked for."""
    with SpooledTemporaryFile(max_size=_SPOOL) as spool:
        yield Heard(fields, asked, spool)
