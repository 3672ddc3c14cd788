"""The content of a table: the winner of every key, by (ts, arrival), under both merges.

A key has a map of fields. Under `replace` the whole document is one field (`WHOLE`). Under `patch` each top-level field
has the version that wrote it. The last deletion leaves a floor: no field is older.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any

from .values import Refused, at, from_line, identity, key_of, normalise, rank, ts_of

WHOLE = None
BROKER = "@kafka"
LOWEST = (Fraction(-(10**400)), -1)
Version = tuple[Fraction, int]
Path = str | tuple[str, ...]


class Outcome(Enum):
    """The outcome of a record."""

    APPLIED = "applied"
    EQUAL = "equal"
    LATE = "late"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Table:
    """The definition of a table. `ts` is a path in the document, or BROKER if the ts comes beside it.

    `tombstones` is the distance from the greatest ts within which deletions are remembered.
    """

    name: str
    key: Path
    ts: str | None = None
    merge: str = "replace"
    tombstones: float | None = None


@dataclass
class Entry:
    """The state of one key: its fields with their versions, and the version of the last deletion."""

    key: Any
    fields: dict[str | None, tuple[Any, Version]] = field(default_factory=dict)
    floor: Version = LOWEST

    def copy(self) -> Entry:
        """Return a copy of this state. Documents are never changed in place, so both share them."""
        return Entry(self.key, dict(self.fields), self.floor)

    @property
    def content(self) -> Any:
        """The content of this key: values and their ts, without their arrival."""
        fields = {name: (identity(value), version[0]) for name, (value, version) in self.fields.items()}
        return fields, self.floor[0]

    def losers(self, fields: Iterable[Any], version: Version) -> list[Any]:
        """Return the fields that a record of this version would win."""
        return [name for name in fields if name not in self.fields or version > self.fields[name][1]]

    @property
    def version(self) -> Version:
        """The greatest version that this key has had."""
        return max([self.floor, *(version for _, version in self.fields.values())])

    @property
    def doc(self) -> Any:
        """The document, or None if it does not exist."""
        if WHOLE in self.fields:
            return self.fields[WHOLE][0]
        return {name: value for name, (value, _) in self.fields.items()} or None


class Documents:
    """The documents of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.ts_kind: str | None = None
        self.entries: dict[Any, Entry] = {}
        self.arrival = 0

    def copy(self) -> Documents:
        """Return a copy of these documents."""
        other = Documents(self.table)
        other.ts_kind, other.arrival = self.ts_kind, self.arrival
        other.entries = {where: entry.copy() for where, entry in self.entries.items()}
        return other

    def changed_since(self, before: Documents) -> set[Any]:
        """Return the keys whose content differs from that of a former copy, deleted keys included."""
        mine, old = self.entries, before.entries
        both = mine.keys() & old.keys()
        written = {where for where in both if mine[where] != old[where]}
        return (mine.keys() ^ old.keys()) | {where for where in written if mine[where].content != old[where].content}

    def forget(self) -> int:
        """Forget the deletions that are too old. Return their number."""
        if self.table.tombstones is None:
            return 0
        greatest = max((entry.version[0] for entry in self.entries.values()), default=Fraction(0))
        limit = greatest - Fraction(self.table.tombstones)
        old = [where for where, e in self.entries.items() if e.doc is None and e.version[0] < limit]
        for where in old:
            del self.entries[where]
        return len(old)

    def living(self) -> dict[Any, tuple[Any, Any]]:
        """Return every document with its key, by the rank of the key."""
        return {where: (entry.key, entry.doc) for where, entry in self.entries.items() if entry.doc is not None}

    def stamps(self) -> dict[Any, Fraction]:
        """Return the ts of every document by the rank of its key, or nothing if the table has no ts."""
        living = {where: entry for where, entry in self.entries.items() if entry.doc is not None}
        return {where: entry.version[0] for where, entry in living.items()} if self.table.ts else {}

    def put(self, doc: Any, ts: Any = None, key: Any = None) -> Outcome:
        """Take a document or a JSON line."""
        try:
            doc, key = self._document(doc, key)
            moment = self._moment(ts if self.table.ts == BROKER else at(doc, self.table.ts), None)
        except Refused:
            return Outcome.REJECTED
        fields = doc if self.table.merge == "patch" else {WHOLE: doc}
        return self._merge(key, moment, fields)

    def delete(self, key: Any, ts: Any = None) -> Outcome:
        """Take a deletion. Without a ts, it takes the ts of the stored version."""
        try:
            key = key_of(normalise(key))
            entry = self.entries.get(rank(key))
            if self.table.ts and ts is None and entry is None:
                return Outcome.EQUAL
            moment = self._moment(ts, entry)
        except Refused:
            return Outcome.REJECTED
        return self._merge(key, moment, None)

    def _document(self, doc: Any, key: Any) -> tuple[dict[str, Any], Any]:
        doc = normalise(from_line(doc) if isinstance(doc, (str, bytes)) else doc)
        if not isinstance(doc, dict):
            raise Refused("no map")
        if key is None:
            path = self.table.key
            key = at(doc, path) if isinstance(path, str) else tuple(at(doc, part) for part in path)
        return doc, key_of(key)

    def _moment(self, ts: Any, standing: Entry | None) -> Fraction:
        """Return the number that orders a ts. The first accepted ts sets the table's kind of ts."""
        if self.table.ts is None:
            return Fraction(0)
        if ts is None and standing is not None:
            return standing.version[0]
        kind, moment = ts_of(ts)
        if self.ts_kind not in (None, kind):
            raise Refused(f"a ts of kind {kind} in a table of {self.ts_kind}")
        self.ts_kind = kind
        return moment

    def _merge(self, key: Any, moment: Fraction, fields: dict[Any, Any] | None) -> Outcome:
        """Merge a record into its key.

        The outcome is `applied` if content changes. Otherwise it is `equal` if a part of the record wins, else `late`.
        """
        self.arrival += 1
        version = (moment, self.arrival)
        entry = self.entries.setdefault(rank(key), Entry(key))
        before, standing = entry.content, entry.version
        if self.table.merge == "replace" and version > standing:
            entry.floor, entry.fields = LOWEST, {}
        won = version > (standing if self.table.merge == "replace" else entry.floor)
        won = won and (fields is None or bool(entry.losers(fields, version)))
        if won and fields is None:
            entry.fields = {name: held for name, held in entry.fields.items() if held[1] > version}
            entry.floor = version if self.table.ts else LOWEST
        elif won:
            entry.fields |= {name: (fields[name], version) for name in entry.losers(fields, version)}
        changed = entry.content != before
        if not entry.fields and entry.floor == LOWEST:
            del self.entries[rank(key)]
        return Outcome.APPLIED if changed else Outcome.EQUAL if won else Outcome.LATE
