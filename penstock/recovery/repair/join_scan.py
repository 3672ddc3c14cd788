"""All contributions of the rows of a join to one view, read in a snapshot: the input of a rebuild.

For a function view these are the remembered emissions. For a field view they follow from the projections in the side
indexes and the stored definition. A held row contributes its last good emission.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.cache import stored_key
from penstock.join import StoredJoin, encoded_keys, row_documents
from penstock.mapreduce import Contributions, Emissions, FieldMapper, SourceKeys, held_db
from penstock.recovery.repair.document_scan import DocumentScan

__all__ = ["JoinScan"]


class JoinScan(DocumentScan):
    """One pass over the rows of a join."""

    def of_join(self, join: StoredJoin) -> Iterator[Contributions]:
        """Yield the contributions of the rows of a join to this view."""
        mapper = self._node.mapper
        for rows in join.rows(self._reader):
            keys = encoded_keys(rows)
            sources, stored = SourceKeys.of_encoded(keys), [stored_key(key) for key in keys]
            if isinstance(mapper, FieldMapper):
                columns = self._decoder(None).of_dicts(row_documents(join.row_sides, rows), keys=False)
                at = np.flatnonzero(self._emits(mapper, columns))
                held = self._reader.get_many(held_db(self._node.number), [stored[i] for i in at.tolist()])
                at = at[[row is None for row in held]] if at.size else at
                yield mapper.contributions(columns, at).of(sources, at)
            else:
                found = self._node.remembered(self._reader).emissions(stored)
                emissions = Emissions.join([Emissions.none(1) if own is None else own for own in found])
                yield self._wanted(self._node.emitted(emissions, (sources, np.arange(emissions.documents))))
        if isinstance(mapper, FieldMapper):
            yield from self._held()
