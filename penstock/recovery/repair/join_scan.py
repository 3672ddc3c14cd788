"""All contributions of the rows of a join to one view, read in a snapshot: the input of a rebuild.

For a function view these are the remembered emissions. For a field view they follow from the projections in the side
indexes and the stored definition. A held row contributes its last good emission. The remembered emission of a row that
is gone counts until it is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from penstock.cache import encode_entry, is_long, stored_key
from penstock.join import StoredJoin, encoded_keys, row_documents
from penstock.mapreduce import Contributions, Emissions, FieldMapper, SourceKeys, emissions_db, held_db
from penstock.recovery.repair.document_scan import BLOCK, DocumentScan

__all__ = ["JoinScan"]


class JoinScan(DocumentScan):
    """One pass over the rows of a join."""

    def of_join(self, join: StoredJoin) -> Iterator[Contributions]:
        """Yield the contributions of the rows of a join to this view."""
        mapper = self._node.mapper
        if not isinstance(mapper, FieldMapper):
            yield from self._joined_emissions(join)
            return
        for rows in join.rows(self._reader):
            keys = encoded_keys(rows)
            columns = self._decoder(None).of_dicts(row_documents(join.row_sides, rows), keys=False)
            at = np.flatnonzero(self._emits(mapper, columns))
            held = self._reader.get_many(held_db(self._node.number), [stored_key(keys[i]) for i in at.tolist()])
            at = at[[row is None for row in held]] if at.size else at
            yield mapper.contributions(columns, at).of(SourceKeys.of_encoded(keys), at)
        yield from self._held()

    def _joined_emissions(self, join: StoredJoin) -> Iterator[Contributions]:
        rows = self._reader.scan(emissions_db(self._node.number))
        while block := list(islice(rows, BLOCK)):
            wholes = self._whole_keys(join, [key for key, _ in block]) if self._node.keeps else {}
            if self._node.keeps:  # without its whole key a row can't name a contribution source
                block = [(key, row) for key, row in block if not is_long(key) or key in wholes]
            remembered = self._node.remembered(self._reader)
            emissions = [Emissions.none(0), *(remembered.emissions_in(key, row) for key, row in block)]
            sources = SourceKeys.of_encoded([wholes.get(key, key) if self._node.keeps else b"\x01" for key, _ in block])
            own = Emissions.join(emissions)
            yield self._wanted(self._node.emitted(own, (sources, np.arange(own.documents))))

    def _whole_keys(self, join: StoredJoin, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the whole encodings of the long keys of rows."""
        found = join.documents(self._reader, {key for key in keys if is_long(key)})
        return {key: encode_entry(whole) for key, (whole, _) in found.items()}
