"""The contributions that a view adds and retracts, when documents or rows of its source change.

For each document, the view retracts the contributions that it counts, and adds those of the current version. If the
view cannot accept a document, neither side changes, and its held row keeps the contributions that count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.items import SourceKeys
from penstock.mapreduce.maps.emissions import Contributions, Pairs
from penstock.mapreduce.maps.function_map import Hold

__all__ = ["Deltas", "DocumentContributions", "SourceChange", "Who", "deltas_of", "places_of"]

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

    def pairs_of_each(self, wanted: Sequence[int], pairs_of: Callable[[Contributions], Pairs]) -> list[Pairs]:
        """Return the pairs of each of these documents, which ascend; a document that is missing here has none."""
        own = self._only(np.isin(self.documents, wanted))
        flat = iter(pairs_of(own.contributions))
        counts = repeat(1) if own.counts is None else own.counts.tolist()
        many = dict(zip(own.documents.tolist(), counts, strict=False))
        return [list(islice(flat, many.get(document, 0))) for document in wanted]

    def _only(self, keep: NDArray[np.bool_]) -> DocumentContributions:
        if self.counts is None:
            return DocumentContributions(self.contributions.take(keep), self.documents[keep])
        own = self.contributions.take(np.repeat(keep, self.counts))
        return DocumentContributions(own, self.documents[keep], self.counts[keep])


def places_of(documents: Index, wanted: Sequence[int]) -> Index:
    """Return the place of each wanted document among documents that ascend; -1 where it is missing."""
    places = np.full(len(wanted), -1, np.int64)
    found = np.isin(wanted, documents)
    places[found] = np.searchsorted(documents, np.array(wanted, np.int64)[found])
    return places


@dataclass(slots=True)
class SourceChange:
    """The changed documents, as one view maps them."""

    now: DocumentContributions  # of the versions now
    before: DocumentContributions  # that count; for a document that is missing here, those of its held row
    stuck: dict[int, Hold] = field(default_factory=dict)  # documents that the view cannot accept now, with reasons
    # Returns the pairs of each of these documents of `before`, which ascend
    last: Callable[[Sequence[int]], list[Pairs]] = lambda wanted: [[] for _ in wanted]


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
    counted = [document for document in sorted(stuck) if document not in held]
    last = dict(zip(counted, change.last(counted), strict=True))
    kept = {document: held[document] if document in held else last[document] for document in sorted(stuck)}
    return Deltas(plus, minus, kept, released)
