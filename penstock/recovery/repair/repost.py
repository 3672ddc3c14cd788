"""Reposts: old values posted again, to remove their contributions from all views.

A repost changes no document and has no order. It repairs every group to which the posted value would contribute. It
also repairs the groups of the document's remembered emissions and of its current emission. Remembered emissions that
differ from the current ones are replaced, and a view that holds the document accepts it if it can. All posted values of
a call share one scan.
"""

from __future__ import annotations

from collections.abc import Mapping as Mapped
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.cache import KeyKind, KeyTooLong, PenstockError, RecordError, encode_key, pack, received_document, unpack
from penstock.core import line_of
from penstock.gateway import key_value
from penstock.mapreduce import FunctionMapper, Pairs
from penstock.recovery.repair.fresh_map import FreshMap, same_pairs
from penstock.recovery.repair.repair_steps import STEP
from penstock.recovery.repair.restatement import Restatement
from penstock.views import Merge, Table


@dataclass(frozen=True, slots=True)
class PostedValue:
    """A posted value and its key."""

    key: Any
    fields: dict[str, Any]


def posted(table: Table, doc: Any) -> PostedValue:
    """Parse a posted value. Raise RecordError if it can't have been a document of this table."""
    try:
        fields = received_document(line_of(doc))
    except PenstockError as error:
        raise RecordError(str(getattr(error, "reason", error))) from None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise RecordError("it is no JSON object and no MessagePack map") from None
    key = key_value(table, fields)
    none = key is None if table.key.single else all(part is None for part in key)
    named = ", ".join(repr(".".join(path)) for path in table.key.paths)
    if none:
        raise RecordError(f"no key in field {named}: it is null")
    try:
        encode_key(key)
    except (KeyKind, KeyTooLong) as error:
        raise RecordError(f"no key in field {named}: {error}") from None
    return PostedValue(key, fields)


class Repost:
    """Reposts to tables of one store."""

    def __init__(self, repair: Restatement) -> None:
        self._site = repair.site
        self._repair = repair

    def repost(self, table: str, values: Sequence[PostedValue]) -> None:
        """Repair all groups to which these values of a table, and their documents, may contribute."""
        asked, again = self._look(table, values)
        for view, groups in asked.items():
            self._repair.view(view, sorted(groups))
        where: dict[int, list[bytes]] = {}
        for key in again:
            where.setdefault(self._site.owner(key), []).append(key)
        for place, keys in where.items():
            for a in range(0, len(keys), STEP):
                self._repair.step(place, "refresh_documents", table, keys[a : a + STEP])
        self._repair.joins_of(table)

    def restate(self, table: str, keys: Sequence[Any]) -> None:
        """Repair the groups of the remembered emissions of the documents with these keys."""
        asked: dict[str, set[bytes]] = {}
        with self._site.snapshot() as snap:
            for key in keys:
                stored = snap.stored(table, key)
                for state in () if stored is None else stored.told:
                    asked.setdefault(state.view, set()).update(encode_key(group) for group, _ in state.pairs)
        for view, groups in asked.items():
            self._repair.view(view, sorted(groups))
        self._repair.joins_of(table)

    def _look(self, table: str, values: Sequence[PostedValue]) -> tuple[dict[str, set[bytes]], list[bytes]]:
        """Return the groups to repair by view, and the keys of documents to restate."""
        patched = self._site.app.table_of(table).merge is Merge.PATCH
        views = [view for view in self._site.views.values() if view.view.source.name == table]
        asked: dict[str, set[bytes]] = {view.name: set() for view in views}
        mappings = {view.name: FreshMap(view.view) for view in views}
        done = {view.name for view in views if view.building is None}
        functions = {view.name for view in views if isinstance(view.mapper, FunctionMapper)}
        again: dict[bytes, None] = {}
        with self._site.snapshot() as snap:
            for value in values:
                stored = snap.stored(table, value.key)
                current = None if stored is None else stored.document
                fields: dict[str, Any] = dict(value.fields)
                if patched and current is not None:
                    fields = {**current, **fields}
                states = {one.view: one for one in (() if stored is None else stored.told)}
                for name, mapping in mappings.items():
                    asked[name] |= mapping.groups([_copied(fields)])
                    mapped = None if current is None else mapping.pairs([_copied(current)])[0]
                    asked[name].update(group for group, _ in mapped or ())
                    own = states.get(name)
                    if own is None or name not in done:
                        continue
                    remembered: Pairs = [(encode_key(group), value) for group, value in own.pairs]
                    asked[name].update(group for group, _ in remembered)
                    held = own.held is not None
                    changed = name in functions and mapped is not None and not same_pairs(remembered, mapped)
                    if mapped is not None and (held or changed):
                        again[encode_key(value.key)] = None
        return asked, list(again)


def _copied(fields: Mapped[str, Any]) -> dict[str, Any]:
    """Copy a document, because a function may modify it."""
    out: dict[str, Any] = unpack(pack(fields))
    return out
