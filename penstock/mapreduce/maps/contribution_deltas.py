"""The contributions that a view adds and retracts, when documents or rows of its source change.

For each document, the view retracts the contributions that it counts, and adds those of the current version. If the
view cannot accept a document, neither side changes, and its held row keeps the contributions that count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.items import SourceKeys
from penstock.mapreduce.maps.emissions import Contributions, Pairs
from penstock.mapreduce.maps.function_map import Hold

__all__ = ["Deltas", "DocumentContributions", "SourceChange", "Who", "deltas_of"]

Index = NDArray[np.int64]
Who = tuple[SourceKeys, Index]  # keys, and the numbers of those documents among them


class CountedPairs(Protocol):
    """A view that decodes the pairs of a held row."""

    def pair_contributions(self, pairs: Sequence[Pairs], who: Who | None = None) -> Contributions:
        """Return the contributions of these pairs."""
        ...


@dataclass(slots=True)
class DocumentContributions:
    """The contributions of some documents, by the numbers of documents in the change, in ascending order."""

    contributions: Contributions
    documents: Index
    counts: Index | None = None  # contributions of each document; None: one each

    def sourced(self, keys: SourceKeys | None) -> Contributions:
        """Return the contributions; with `keys`, by document number, each contribution has its source."""
        return self.contributions if keys is None else self.contributions.of(keys, self.documents, self.counts)

    def without(self, documents: Collection[int]) -> DocumentContributions:
        """Return the contributions of all documents but these."""
        return self._only(~np.isin(self.documents, list(documents))) if documents else self

    def of_document(self, document: int) -> Contributions:
        """Return the contributions of one document."""
        return self._only(self.documents == document).contributions

    def _only(self, keep: NDArray[np.bool_]) -> DocumentContributions:
        if self.counts is None:
            return DocumentContributions(self.contributions.take(keep), self.documents[keep])
        own = self.contributions.take(np.repeat(keep, self.counts))
        return DocumentContributions(own, self.documents[keep], self.counts[keep])


@dataclass(slots=True)
class SourceChange:
    """The changed documents, as one view maps them."""

    now: DocumentContributions  # of the versions now
    before: DocumentContributions  # that count; for a document that is missing here, those of its held row
    stuck: dict[int, Hold]  # documents that the view cannot accept now, with reasons
    last: Callable[[int], Pairs]  # the pairs of one document of `before`


@dataclass(slots=True)
class Deltas:
    """The contributions that a change adds and retracts, and the documents that the view holds after it."""

    plus: Contributions
    minus: Contributions
    kept: dict[int, Pairs]  # for each document in `stuck`, the contributions that still count
    released: list[int]  # documents that are no longer held


def deltas_of(
    view: CountedPairs, change: SourceChange, held: Mapping[int, Pairs], keys: SourceKeys | None = None
) -> Deltas:
    """Return the contributions that a change adds and retracts; `held` are the pairs of documents with a held row.

    `keys` are those of all documents of the change, if the view keeps contributions.
    """
    stuck = change.stuck
    if not stuck and not held:
        return Deltas(change.now.sourced(keys), change.before.sourced(keys), {}, [])
    released = [document for document in sorted(held) if document not in stuck]
    plus = change.now.without(stuck).sourced(keys)
    minus = change.before.without(stuck).sourced(keys)
    known = set(change.before.documents.tolist())
    others = [document for document in released if document not in known]
    if others:
        who = None if keys is None else (keys, np.array(others))
        minus = Contributions.join([minus, view.pair_contributions([held[document] for document in others], who)])
    kept = {document: held[document] if document in held else change.last(document) for document in sorted(stuck)}
    return Deltas(plus, minus, kept, released)
