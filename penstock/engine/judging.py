"""Results judged by a recompute that shares no code with what keeps them: group by group, in memory of one group.

Which documents contribute to which group is sorted in a store of its own; then each group's documents are mapped and
folded once more in plain Python, and what comes of it is held against the row. Left out are groups that count a
document that the view holds, whose reducer fails, or whose documents' function would yield something else now. A view
whose reducer reads ts beside documents is not judged so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any

from penstock.cache import Reader, Store, decode_key, encode_key, pack, shown, stored_key, unpack
from penstock.engine.snapshot import Snapshot
from penstock.mapreduce import IndexReduce, Pairs, ViewNode, same_result
from penstock.recovery import Mapping, recomputed
from penstock.views import Row

_DB = "judged"
_BLOCK = 1 << 10
_DIGEST = 16
Told = Callable[[list[Any]], list[Pairs | None]]
"""What is remembered of documents, by their keys; None where nothing is."""


def judged(
    snap: Snapshot, view: ViewNode, documents: Iterable[tuple[Any, Any]], unsure: set[bytes], store: Store
) -> Iterator[str]:
    """What is wrong with results of a view over these documents (key and document, or row of its source).

    `unsure` are groups that are left out.
    """
    mapping = Mapping(view.view)
    _sort(mapping, view, documents, store)
    unsure = unsure | snap.held(view.name)[0]
    with store.read() as reader:
        for _, entries in groupby(reader.scan(_DB), lambda entry: entry[0][:_DIGEST]):
            yield from _group(snap, view, [unpack(row) for _, row in entries], unsure)


def _sort(mapping: Mapping, view: ViewNode, documents: Iterable[tuple[Any, Any]], store: Store) -> None:
    """Write down which keys contribute to which groups, those of one group together."""
    coming = iter(documents)
    n = 0
    while block := list(islice(coming, _BLOCK)):
        docs = [Row(key, doc) if view.chained else doc for key, doc in block]
        rows: dict[bytes, bytes] = {}
        for (key, _), pairs in zip(block, mapping.pairs(docs), strict=True):
            for group in {group for group, _ in pairs or ()}:
                n += 1
                place = blake2b(group, digest_size=_DIGEST).digest() + n.to_bytes(8, "big")
                rows[place] = pack([group, encode_key(key)])
        with store.write() as writer:
            writer.put_many(_DB, sorted(rows.items()))


def _group(snap: Snapshot, view: ViewNode, entries: list[list[bytes]], unsure: set[bytes]) -> Iterator[str]:
    """What is wrong with one group; two that share a digest are told apart."""
    for whole in dict.fromkeys(group for group, _ in entries):
        if whole in unsure:
            continue
        keys = [decode_key(key) for group, key in entries if group == whole]
        docs = _read(snap, view, keys)
        made = recomputed(view.view, [(key, doc) for key, doc in zip(keys, docs, strict=True)])
        for row in made.rows.values():
            encoded = encode_key(row.group)
            mine = isinstance(view.reduce, IndexReduce) and encode_key(row.group[0]) == whole
            if row.refused or not (mine or encoded == whole):
                continue
            had, result, held = _shown(snap.reader(), view, encoded)
            if not held and (not had or not same_result(result, row.result)):
                shows = shown(result) if had else "nothing"
                yield (
                    f"view {view.name!r}, group {shown(row.group)}: it shows {shows}, and its documents from scratch "
                    f"give {shown(row.result)}; run `penstock restate {view.name}`, and if that finds nothing report it"
                )


def _read(snap: Snapshot, view: ViewNode, keys: Sequence[Any]) -> list[Any]:
    source = view.view.source.name
    return snap.view(source).get_many(keys) if view.chained else snap.table(source).get_many(keys)


def _shown(reader: Reader, view: ViewNode, group: bytes) -> tuple[bool, Any, bool]:
    """Whether a group has a row, what that shows, and whether it is held."""
    key = stored_key(group)
    row = reader.get_many(view.reduce.db, [key])[0]
    if row is None:
        return False, None, False
    state = view.reduce.codec.decode(key, row, f"view {view.name!r}")
    return True, view.reduce.codec.result(state), state.held is not None
