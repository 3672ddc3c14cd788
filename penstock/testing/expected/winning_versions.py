"""The documents that a table should hold, in plain Python: per key the version with the greatest (ts, arrival) wins.

An entry maps each field to its value and the version that wrote it. It also has the version of the last deletion. Under
`replace` the whole document is one field. `again()` yields records that lead to the same documents by another, shorter
history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from penstock.recovery import Rank, Refused, at, identity, key_of, moment_of, rank, value_of
from penstock.spout import Record
from penstock.views import Merge, Table

_WHOLE = ""
Moment = int | float | Fraction


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """The order of a record among those of its key: by ts, then by arrival."""

    moment: Moment
    arrival: int


@dataclass(slots=True)
class Written:
    """A field's value, its version, and the ts as it was given."""

    value: Any
    version: Version
    ts: Any


@dataclass(slots=True)
class ExpectedKey:
    """The state of one key: its fields, and the version of its last deletion."""

    key: Any
    fields: dict[str, Written] = field(default_factory=dict)
    floor: Version | None = None
    floor_ts: Any = None

    @property
    def doc(self) -> dict[str, Any] | None:
        """The document, or None if it does not exist."""
        if not self.fields:
            return None
        whole = self.fields.get(_WHOLE)
        return whole.value if whole is not None else {name: f.value for name, f in self.fields.items()}

    @property
    def content(self) -> Any:
        """The content of this key: the values with their moments, and the moment of the last deletion."""
        floor = None if self.floor is None else self.floor.moment
        return {name: (identity(f.value), f.version.moment) for name, f in self.fields.items()}, floor

    @property
    def newest(self) -> tuple[Version, Any] | None:
        """The greatest version of this key, and its ts as it was given."""
        seen = [(f.version, f.ts) for f in self.fields.values()]
        if self.floor is not None:
            seen.append((self.floor, self.floor_ts))
        return max(seen, key=lambda one: one[0], default=None)


class ExpectedDocuments:
    """The documents of one table, built record by record.

    >>> import penstock as ps
    >>> users = ExpectedDocuments(ps.App("shop").table("users", key="id", ts="ts"))
    >>> for name, ts in ("Sue", 2), ("Joe", 1):
    ...     users.take(ps.Record("users", 7, {"id": 7, "name": name, "ts": ts}))
    >>> users.living()
    [(7, {'id': 7, 'name': 'Sue', 'ts': 2})]
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.ts_kind: str | None = None
        self.entries: dict[Rank, ExpectedKey] = {}
        self.refused = 0  # number of rejected records
        self._arrivals = 0

    def take(self, record: Record) -> None:
        """Take a record, or count it as refused."""
        try:
            self._take(*self._parts(record))
        except Refused:
            self.refused += 1

    def content(self, where: Rank) -> Any:
        """Return the content of a key, or None if the key never existed."""
        entry = self.entries.get(where)
        return None if entry is None else entry.content

    def key_of(self, record: Record) -> Any:
        """Return a record's key, or None if the record is rejected."""
        try:
            return self._parts(record)[0]
        except Refused:
            return None

    def where(self, record: Record) -> Rank | None:
        """Return the rank of a record's key, or None if the record is rejected."""
        try:
            return rank(self._parts(record)[0])
        except Refused:
            return None

    def refuses(self, record: Record) -> bool:
        """Return whether the table rejects a record."""
        try:
            _, doc, ts = self._parts(record)
            if self.table.has_ts and not (doc is None and ts is None):
                kind, _ = moment_of(ts)
                return self.ts_kind not in (None, kind)
        except Refused:
            return True
        return False

    def living(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return the documents in the order of their keys."""
        found = ((where, entry.key, entry.doc) for where, entry in self.entries.items())
        return [(key, doc) for _, key, doc in sorted(((w, k, d) for w, k, d in found if d is not None), key=_first)]

    def moments(self) -> dict[Rank, Moment]:
        """Return the newest ts of each key, by the rank of the key. Return nothing if the table has no ts."""
        if not self.table.has_ts:
            return {}
        newest = {where: entry.newest for where, entry in self.entries.items()}
        return {where: found[0].moment for where, found in newest.items() if found is not None}

    def again(self) -> Iterator[list[Record]]:
        """Yield batches of records that lead to the same documents: deletions first, then each field once."""
        waves: dict[Moment, list[Record]] = {}
        first: list[Record] = []
        for entry in self.entries.values():
            if entry.floor is not None:
                first.append(Record(self.table.name, entry.key, None, entry.floor_ts))
            if self.table.merge is Merge.REPLACE:
                first += [
                    Record(self.table.name, entry.key, w.value, self._beside(w.ts)) for w in entry.fields.values()
                ]
                continue
            parts: dict[Moment, tuple[Any, dict[str, Any]]] = {}
            for name, written in entry.fields.items():
                parts.setdefault(written.version.moment, (written.ts, {}))[1][name] = written.value
            for moment, (ts, fields) in parts.items():
                doc = self._keyed(fields, entry, moment, ts)
                waves.setdefault(moment, []).append(Record(self.table.name, entry.key, doc, self._beside(ts)))
        yield from filter(None, [first, *(waves[moment] for moment in sorted(waves))])

    # -- within

    def _take(self, key: Any, doc: dict[str, Any] | None, ts: Any) -> None:
        where = rank(key)
        standing = self.entries.get(where)
        newest = None if standing is None else standing.newest
        if doc is None and ts is None and self.table.has_ts:
            if newest is None:
                return  # a deletion without ts, of a key that never existed
            moment, ts = newest[0].moment, newest[1]
        else:
            moment = self._moment(ts)
        self._arrivals += 1
        version = Version(moment, self._arrivals)
        entry = self.entries.setdefault(where, ExpectedKey(key))
        if doc is None:
            self._delete(entry, version, ts)
        elif self.table.merge is Merge.REPLACE:
            if newest is None or version > newest[0]:
                entry.fields, entry.floor = {_WHOLE: Written(doc, version, ts)}, None
        elif entry.floor is None or version > entry.floor:
            for name, value in doc.items():
                if name not in entry.fields or version > entry.fields[name].version:
                    entry.fields[name] = Written(value, version, ts)
        if not entry.fields and entry.floor is None:
            del self.entries[where]

    def _delete(self, entry: ExpectedKey, version: Version, ts: Any) -> None:
        if entry.floor is not None and version < entry.floor:
            return
        left = {name: f for name, f in entry.fields.items() if f.version > version}
        if left and self.table.merge is Merge.REPLACE:
            return
        entry.fields = left
        if self.table.has_ts:
            entry.floor, entry.floor_ts = version, ts

    def _parts(self, record: Record) -> tuple[Any, dict[str, Any] | None, Any]:
        """Return the key, the document and the ts of a record."""
        if record.doc is None:
            return key_of(value_of(record.key)), None, value_of(record.ts)
        doc = value_of(parsed(record.doc))
        key = key_in(self.table, doc)
        if self.table.broker_ts:
            return key_of(key), doc, value_of(record.ts)
        return key_of(key), doc, None if self.table.ts is None else at(doc, self.table.ts)

    def _moment(self, ts: Any) -> Moment:
        if not self.table.has_ts:
            return 0
        kind, moment = moment_of(ts)
        if self.ts_kind not in (None, kind):
            raise Refused(f"a ts of another kind than the table's, {ts!r}")
        self.ts_kind = kind
        return moment

    def _keyed(self, fields: dict[str, Any], entry: ExpectedKey, moment: Moment, ts: Any) -> dict[str, Any]:
        """Add the key and the ts to the fields of a patch, since every patch must carry them."""
        doc = dict(fields)
        paths = [*self.table.key.paths, *([] if self.table.ts is None else [self.table.ts])]
        for root in {path[0] for path in paths}:
            if root not in doc:
                newest = entry.fields[root]
                assert newest.version.moment > moment, "what a record carried is written or overwritten"
                doc[root] = newest.value
        if self.table.ts is not None:
            doc = _with(doc, self.table.ts, ts)
        return doc

    def _beside(self, ts: Any) -> Any:
        return ts if self.table.broker_ts else None


def parsed(doc: Mapping[str, Any] | bytes | str) -> Mapping[str, Any]:
    """Return the document of a record. Raise Refused if it is not a JSON object."""
    if not isinstance(doc, bytes | str):
        return doc
    try:
        found = json.loads(doc, parse_constant=_no_constant)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not isinstance(found, dict):
        raise Refused("no JSON object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def key_in(table: Table, doc: Mapping[str, Any]) -> Any:
    """Return the key in a document."""
    parts = tuple(at(doc, path) for path in table.key.paths)
    return parts[0] if table.key.single else parts


def _with(doc: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the document with this value at a path."""
    root, *rest = path
    inner = doc.get(root)
    return {
        **doc,
        root: _with(dict(inner) if isinstance(inner, Mapping) else {}, tuple(rest), value) if rest else value,
    }


def _first(entry: tuple[Any, Any, Any]) -> Any:
    return entry[0]
