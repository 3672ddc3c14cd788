"""The rows in which a view remembers its last contributions.

One rule decides the contributions that count for a document, or for a row of the parent view:

- a view that holds the document counts the contributions of its held row;
- otherwise a function view counts the emissions that it remembers for the document;
- otherwise the contributions follow from the stored line, by the fields of the definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.maps.emissions import Emissions, Pairs, read_emissions, read_joined
from penstock.mapreduce.maps.held_rows import Held, held_in

__all__ = ["RememberedRows"]


class RememberedRows:
    """The contributions that one view remembers, read from one snapshot or transaction.

    A document of a table is named by its stored key. Emissions stand at a place: the key of a segment of the table, or
    the key of a row of another view. `groups` numbers the groups of the emissions.
    """

    __slots__ = ("_db", "_held", "_reader", "groups")

    def __init__(self, reader: Reader, groups: Groups, held: str, db: str | None) -> None:
        self._reader = reader
        self.groups = groups
        self._held = held  # the database of held rows
        self._db = db  # the database of emissions; None of a view of fields, which has none

    def last(self, document: bytes, place: bytes, at: int = 0) -> Pairs | None:
        """Return the last contributions of a document; `at` is the number of its emissions within a place.

        None means that nothing is stored: the contributions follow from the line by fields, or there are none.
        """
        held = self.held([document]).get(document)
        return self.yielded(place, at) if held is None else held.pairs

    # -- held rows

    def held(self, documents: Sequence[bytes]) -> dict[bytes, Held]:
        """Return the held rows of these documents, as far as the view holds them."""
        rows = self._reader.get_many(self._held, documents)
        return {key: self.held_in(key, row) for key, row in zip(documents, rows, strict=True) if row is not None}

    def all_held(self) -> Iterator[tuple[bytes, Held]]:
        """Iterate over the held rows of all documents, by stored key."""
        for key, row in self._reader.scan(self._held):
            yield key, self.held_in(key, row)

    def held_in(self, key: bytes, row: bytes) -> Held:
        """Decode a held row that was read already."""
        return held_in(key, row, self._held)

    # -- emissions

    def emissions(self, places: Sequence[bytes]) -> list[Emissions | None]:
        """Return the emissions at each of these places; None without a row."""
        if self._db is None:
            return [None] * len(places)
        rows = self._reader.get_many(self._db, places)
        return [None if row is None else self.emissions_in(key, row) for key, row in zip(places, rows, strict=True)]

    def joined(self, places: Sequence[bytes]) -> tuple[NDArray[np.int64], Emissions]:
        """Return the numbers of the places that have a row, and their emissions; each place is one document."""
        assert self._db is not None, "asked of views that have a function"
        rows = self._reader.get_many(self._db, places)
        known = [i for i, row in enumerate(rows) if row is not None]
        if not known:
            return np.zeros(0, np.int64), Emissions.none(0)
        stored = [row for row in rows if row is not None]
        return np.array(known), read_joined([places[i] for i in known], stored, self.groups, self._db)

    def all_emissions(self) -> Iterator[tuple[bytes, Emissions]]:
        """Iterate over the emissions of all places."""
        for key, row in () if self._db is None else self._reader.scan(self._db):
            yield key, self.emissions_in(key, row)

    def emissions_in(self, key: bytes, row: bytes) -> Emissions:
        """Decode a row of emissions that was read already."""
        assert self._db is not None, "asked of views that have a function"
        return read_emissions(key, row, self.groups, self._db)

    def blocks(self, places: Sequence[bytes], sizes: Sequence[int]) -> list[Emissions]:
        """Return the emissions of places with so many documents each. A document without emissions yielded nothing."""
        found = zip(self.emissions(places), sizes, strict=True)
        return [Emissions.none(size) if own is None else own.padded(size) for own, size in found]

    def block(self, place: bytes, size: int) -> Emissions:
        """Return the emissions of one place with so many documents."""
        [own] = self.blocks([place], [size])
        return own

    def yielded(self, place: bytes, at: int = 0) -> Pairs | None:
        """Return the contributions of one document at a place; None without a row."""
        [own] = self.emissions([place])
        return None if own is None else own.padded(at + 1).pairs(at, self.groups)
