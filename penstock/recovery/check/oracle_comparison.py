"""Results compared with an independent recomputation, group by group, in bounded memory.

A scratch store sorts the documents by the groups to which they contribute. Then the oracle maps and folds the documents
of a few groups at a time in plain Python. The results are compared with the rows. A group of many documents is folded
part by part, if its reducers allow it. A group is left out if it counts a held document, if its reducer fails, or if
its documents would now yield another emission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby, islice
from typing import Any

from penstock.cache import Store, decode_key, encode_entry, encode_key, pack, stored_key, unpack, value_text
from penstock.core import Snapshot
from penstock.gateway import document_of, unwrap
from penstock.mapreduce import IndexReduce, ViewNode, copies, same_result
from penstock.recovery.oracle.plain_values import rank
from penstock.recovery.oracle.plain_views import recomputed, recomputed_large
from penstock.recovery.repair.fresh_map import FreshMap, moment_in
from penstock.views import ABSENT, FunctionMap, Join, Row, Table

_DB = "judged"
_BLOCK = 1 << 10
_MOST = 1 << 14  # documents of a group that are in memory at once
_DIGEST = 16
Group = tuple[bytes, list[bytes]]
"""A group, and the keys of the documents that contribute to it."""
Found = tuple[Any, Any, Any]
"""A key, its document or row, and the document's ts (None if no reducer reads it)."""
_Read = Callable[[Sequence[bytes]], list[Found]]


def judged(
    snap: Snapshot, view: ViewNode, documents: Iterable[tuple[Any, Any]], unsure: set[bytes], store: Store
) -> Iterator[str]:
    """Yield a message for each wrong result of a view over these documents (key and document, or parent row).

    Groups in `unsure` are left out. The rows of a join stay in memory: the store has them nowhere.
    """
    read: _Read = partial(_read, snap, view)
    if isinstance(view.view.source, Join):
        encoded = ((_encoded(key), row) for key, row in documents)
        rows = {whole: (decode_key(whole), row) for whole, row in encoded}
        documents = rows.values()
        read = partial(_joined, view, rows)
    _sort(FreshMap(view.view), view, documents, store)
    unsure = unsure | snap.held(view.name)[0]
    with store.read() as reader:
        some: list[Group] = []
        for _, found in groupby(reader.scan(_DB), lambda entry: entry[0][:_DIGEST]):
            entries = (unpack(row) for _, row in found)
            first = list(islice(entries, _MOST + 1))
            if len(first) > _MOST:
                yield from _large(snap, view, read, first[0][0], chain(first, entries), unsure)
                continue
            some += _by_group(first)
            if sum(len(keys) for _, keys in some) >= _BLOCK:
                yield from _some(snap, view, read, some, unsure)
                some = []
        yield from _some(snap, view, read, some, unsure)


def _sort(mapping: FreshMap, view: ViewNode, documents: Iterable[tuple[Any, Any]], store: Store) -> None:
    """Write the keys that contribute to each group into the scratch store, ordered by group."""
    coming = iter(documents)
    n = 0
    while block := list(islice(coming, _BLOCK)):
        docs = [Row(key, doc) if view.chained else doc for key, doc in block]
        docs = _own(view, docs) if isinstance(view.view.source, Join) else docs
        rows: dict[bytes, bytes] = {}
        for (key, _), pairs in zip(block, mapping.pairs(docs), strict=True):
            for group in {group for group, _ in pairs or ()}:
                n += 1
                place = blake2b(group, digest_size=_DIGEST).digest() + n.to_bytes(8, "big")
                rows[place] = pack([group, _encoded(key)])
        with store.write() as writer:
            writer.put_many(_DB, sorted(rows.items()))


def _encoded(key: Any) -> bytes:
    """Encode a key. The key of a joined row or of an index entry may be longer than that of a document."""
    return encode_entry(key) if type(key) is tuple else encode_key(key)


def _by_group(entries: Sequence[Sequence[bytes]]) -> list[Group]:
    """Separate the entries of one digest by group, because two groups may share a digest."""
    found: dict[bytes, list[bytes]] = {}
    for group, key in entries:
        found.setdefault(group, []).append(key)
    return list(found.items())


def _some(snap: Snapshot, view: ViewNode, read: _Read, groups: Sequence[Group], unsure: set[bytes]) -> Iterator[str]:
    """Yield a message for each wrong result among a few groups."""
    groups = [own for own in groups if own[0] not in unsure]
    docs = iter(read([key for _, keys in groups for key in keys]))
    for whole, keys in groups:
        own = list(islice(docs, len(keys)))
        moments = {rank(key): moment for key, _, moment in own if moment is not None}
        made = recomputed(view.view, [(key, doc) for key, doc, _ in own], moments)
        rows = [row for row in made.rows.values() if not row.refused]
        rows = [row for row in rows if _encoded(row.group[0] if view.view.index else row.group) == whole]
        for row, result in zip(rows, _shown_results(snap, view, [_encoded(row.group) for row in rows]), strict=True):
            if result is not _HELD and (result is ABSENT or not same_result(result, row.result)):
                yield _wrong(view, row.group, result, row.result)


def _large(
    snap: Snapshot, view: ViewNode, read: _Read, whole: bytes, entries: Iterable[Sequence[bytes]], unsure: set[bytes]
) -> Iterator[str]:
    """Yield a message for each wrong result of a group with many documents."""

    def parts() -> Iterator[list[Found]]:
        keys = (key for _, key in entries)
        while block := list(islice(keys, _BLOCK)):
            yield read(block)

    if whole in unsure:
        return
    if isinstance(view.reduce, IndexReduce):  # each row is of one document
        keys = (key for _, key in entries)
        while block := list(islice(keys, _BLOCK)):
            yield from _some(snap, view, read, [(whole, block)], unsure)
        return
    group = decode_key(whole)
    made = recomputed_large(view.view, group, parts())
    [result] = _shown_results(snap, view, [whole])
    if result is _HELD:
        return
    for i, wanted in made.items():
        name = None if view.view.fields is None else view.view.fields[i]
        own = result if name is None or result is ABSENT else result[name]
        if own is ABSENT or not same_result(own, wanted):
            yield _wrong(view, group, own, wanted, "" if name is None else f", {name!r}")


def _read(snap: Snapshot, view: ViewNode, keys: Sequence[bytes]) -> list[Found]:
    """Return documents of a table, or rows of a view, with their keys, and the ts if the view reads it."""
    source, asked = view.view.source, list(map(decode_key, keys))
    nothing: list[Any] = [None] * len(asked)
    if not isinstance(source, Table):
        return list(zip(asked, snap.view(source.name).get_many(asked), nothing, strict=True))
    documents = snap.table(source.name)
    if not view.stamped:
        return list(zip(asked, documents.get_many(asked), nothing, strict=True))
    out: list[Found] = []
    for key, line in zip(asked, documents.lines_of(asked), strict=True):
        assert line is not None, "its document was there when groups were sorted, in the same snapshot"
        doc = document_of(line)
        out.append((key, doc, moment_in(source, unwrap(line), doc)))
    return out


def _joined(view: ViewNode, rows: Mapping[bytes, tuple[Any, Any]], keys: Sequence[bytes]) -> list[Found]:
    """Return rows of a join with their keys."""
    found = [rows[key] for key in keys]
    own = _own(view, [row for _, row in found])
    return [(key, row, None) for (key, _), row in zip(found, own, strict=True)]


def _own(view: ViewNode, rows: list[Any]) -> list[Any]:
    """Return rows of a join for a view. They share documents, so a function gets copies."""
    return list(copies(rows)) if isinstance(view.view.map, FunctionMap) else rows


_HELD = object()


def _shown_results(snap: Snapshot, view: ViewNode, groups: Sequence[bytes]) -> list[Any]:
    """Return the results that these groups show: ABSENT without a row, _HELD for a held group."""
    keys = list(map(stored_key, groups))
    out: list[Any] = []
    for key, row in zip(keys, snap.reader().get_many(view.reduce.db, keys), strict=True):
        state = None if row is None else view.reduce.codec.decode(key, row, f"view {view.name!r}")
        if state is None:
            out.append(ABSENT)
        else:
            out.append(_HELD if state.held is not None else view.reduce.codec.result(state))
    return out


def _wrong(view: ViewNode, group: Any, result: Any, wanted: Any, field: str = "") -> str:
    shows = "nothing" if result is ABSENT else value_text(result)
    return (
        f"view {view.name!r}, group {value_text(group)}{field}: it shows {shows}, and its documents from scratch give "
        f"{value_text(wanted)}; run `penstock restate {view.name}`, and if that finds nothing report it"
    )
