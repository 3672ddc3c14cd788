"""Documents whose function would now yield another emission than the remembered one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cache import record_key
from penstock.gateway import document_of, unwrap
from penstock.mapreduce import Groups, Pairs, ViewNode
from penstock.recovery.repair.fresh_map import FreshMap, same_pairs

if TYPE_CHECKING:
    from penstock.core import Snapshot

__all__ = ["differing", "table_emissions"]

_BLOCK = 1 << 10


def differing(mapping: FreshMap, docs: list[Any], remembered: list[Any], unsure: set[bytes]) -> int:
    """Count documents that would now yield another emission, and add their groups to `unsure`.

    The groups of documents whose map fails are added too; these documents count as held.
    """
    n = 0
    for own, was in zip(mapping.pairs(docs), remembered, strict=True):
        if own is None or not same_pairs(own, was):
            unsure.update(group for group, _ in (*(own or ()), *was))
            n += own is not None
    return n


def table_emissions(snap: Snapshot, view: ViewNode, unsure: set[bytes]) -> int:
    """Count the documents of a table that would now yield another emission."""
    mapping, n = FreshMap(view.view), 0
    documents = snap.log(view.view.source.name)
    base, emissions = -1, list[Pairs]()
    places = documents.places()
    while block := list(islice(places, _BLOCK)):
        docs: list[Any] = []
        remembered: list[Any] = []
        for segment, at, line in block:
            if segment != base:
                base, key = segment, record_key(segment)
                groups = Groups()
                [own] = view.remembered(snap.reader(), groups).emissions([key])
                emissions = [] if own is None else own.pairs_of_each(groups)
            if not unwrap(line).absent:
                docs.append(document_of(line))
                remembered.append(emissions[at] if at < len(emissions) else [])
        n += differing(mapping, docs, remembered, unsure)
    return n
