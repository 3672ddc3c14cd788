"""Contributions of a view that come and that go, as documents or rows of its source change.

For each document the contributions that the view counts come off, and those of the version now go on. A document that
the view can't take stays as it is: neither side moves, and its held row keeps the contributions that count.
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
    """A view that reads pairs of a held row."""

    def pair_contributions(self, pairs: Sequence[Pairs], who: Who | None = None) -> Contributions:
        """Return the contributions that these pairs mean."""
        ...


@dataclass(slots=True)
class DocumentContributions:
    """The contributions of some documents. Documents are named by their numbers in the change, and ascend."""

    contributions: Contributions
    documents: Index
    counts: Index | None = None  # contributions of each document; None: one each

    def sourced(self, keys: SourceKeys | None) -> Contributions:
        """Return the contributions; with `keys`, which number the documents, each says which document it is of."""
        return self.contributions if keys is None else self.contributions.of(keys, self.documents, self.counts)

    def without(self, documents: Collection[int]) -> DocumentContributions:
        """Return those of all documents but these."""
        return self._only(~np.isin(self.documents, list(documents))) if documents else self

    def of_document(self, document: int) -> Contributions:
        """Return those of one document."""
        return self._only(self.documents == document).contributions

    def _only(self, keep: NDArray[np.bool_]) -> DocumentContributions:
        if self.counts is None:
            return DocumentContributions(self.contributions.take(keep), self.documents[keep])
        own = self.contributions.take(np.repeat(keep, self.counts))
        return DocumentContributions(own, self.documents[keep], self.counts[keep])


@dataclass(slots=True)
class SourceChange:
    """Documents that change, as one view maps them."""

    now: DocumentContributions  # of the versions now
    before: DocumentContributions  # that count; of a document that is missing here, its held row says them
    stuck: dict[int, Hold]  # documents whose version now the view can't take, and why
    last: Callable[[int], Pairs]  # the pairs of one document of `before`


@dataclass(slots=True)
class Deltas:
    """The contributions that a change adds and takes back, and the documents that the view holds from now on."""

    plus: Contributions
    minus: Contributions
    kept: dict[int, Pairs]  # of each document that it can't take, the contributions that still count
    released: list[int]  # documents that it held, and holds no more


def deltas_of(
    view: CountedPairs, change: SourceChange, held: Mapping[int, Pairs], keys: SourceKeys | None = None
) -> Deltas:
    """Return the contributions that a change adds and takes back; `held` are the pairs of documents with a held row.

    `keys` are those of all documents of the change, where the view keeps contributions.
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
