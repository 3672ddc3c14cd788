"""Records for a user's app: documents like those of a table's sample file, or those of the user's Hypothesis strategy.

From a sample it learns the values of each field, and how often each key occurs. A generated document is a copy of a
sample document. Some fields get values of other documents, or numbers within their range. Its key is one that other
documents share. Its moment is near the present, so versions are late, equal or new. Some records are deletions.
Documents of a strategy only get such a key. Their other fields stay as drawn.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from penstock.cache import DefinitionError, MissingExtra, unpack_document
from penstock.recovery import Refused, at, identity, key_of, moment_of, value_of
from penstock.spout import Record, open_file
from penstock.testing.expected.winning_versions import key_in, parsed
from penstock.views import TS, App, FieldMap, Path, Table, fields_read

_READ, _POOL = 2_000, 200
_SPANS = (3, 6, 6, 24)
_GONE, _CHANGED = 0.12, 0.25
Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DocumentProfile:
    """The documents of one table, with their keys and field values. Without `changes`, fields are left as they are."""

    table: Table
    docs: tuple[Doc, ...]
    keys: tuple[Any, ...]  # the most frequent first
    weights: tuple[int, ...]
    pools: Mapping[Path, tuple[Any, ...]]
    changes: bool
    start: Any = None  # the least ts

    @classmethod
    def of(cls, table: Table, docs: Iterable[Mapping[str, Any]], changes: bool = True) -> DocumentProfile:
        """Learn from these documents."""
        good: list[Doc] = []
        keys: Counter[Any] = Counter()
        whole: dict[Any, Any] = {}
        for doc in docs:
            try:
                own = value_of(doc)
                key = key_of(key_in(table, own))
            except Refused:
                continue
            good.append(own)
            keys[identity(key)] += 1
            whole.setdefault(identity(key), key)
        if not good:
            raise DefinitionError(
                f"table {table.name!r} has no document to learn from; each needs the field of its key"
            )
        common = keys.most_common()
        pools: dict[Path, list[Any]] = {}
        fixed = {*table.key.paths, *([] if table.ts is None else [table.ts])}
        for doc in good:
            _gather(doc, (), fixed, pools)
        return cls(
            table,
            tuple(good),
            tuple(whole[k] for k, _ in common),
            tuple(n for _, n in common),
            {path: tuple(values) for path, values in pools.items()},
            changes,
            _least([at(doc, table.ts) for doc in good]) if table.ts is not None else None,
        )

    def document(self, choose: Random, key: Any, now: int) -> Doc:
        """Return a generated document under this key."""
        doc = deepcopy(choose.choice(self.docs))
        if self.changes:
            for path, pool in self.pools.items():
                if choose.random() < _CHANGED:
                    _put(doc, path, _near(choose, pool))
            if self.table.ts is not None and self.start is not None:
                _put(doc, self.table.ts, _moved(self.start, now))
        parts = key if not self.table.key.single else (key,)
        for path, part in zip(self.table.key.paths, parts, strict=True):
            _put(doc, path, part)
        return doc


@dataclass(slots=True)
class TrialStream:
    """Records of all tables of an app, for one run."""

    profiles: Sequence[DocumentProfile]
    now: int = 0
    span: int = 0
    wide: bool = False

    def widen(self) -> None:
        """Use all keys of the sample from now on."""
        self.wide = True

    def record(self, choose: Random) -> Record:
        """Return the next record."""
        self.now += 1
        self.span = self.span or choose.choice(_SPANS)
        own = choose.choice(self.profiles)
        few = len(own.keys) if self.wide else choose.choice((2, self.span))
        key = choose.choices(own.keys[:few], own.weights[:few])[0]
        now = self.now + choose.choice((0, 0, 0, 1, -1, -2, -6))
        broker = now if own.table.broker_ts else None
        if choose.random() < _GONE:
            moment = broker if own.table.ts is None or own.start is None else _moved(own.start, now)
            return Record(own.table.name, key, None, moment)
        return Record(own.table.name, key, own.document(choose, key, now), broker)


@dataclass(slots=True)
class Makers:
    """The sources of documents for an app's tables."""

    app: App
    given: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""

    def profiles(self) -> tuple[DocumentProfile, ...]:
        """Learn from the documents of each table."""
        return tuple(self.of(table) for table in self.app.tables())

    def of(self, table: Table) -> DocumentProfile:
        """Learn from the documents of one table."""
        given = self.given.get(table.name)
        if given is None and table.sample is not None:
            return DocumentProfile.of(table, read_sample(os.path.join(self.folder, table.sample), table.name))
        if given is None:
            return DocumentProfile.of(table, _from_definitions(self.app, table))
        if isinstance(given, str | os.PathLike):
            return DocumentProfile.of(table, read_sample(os.fspath(given), table.name))
        if hasattr(given, "example") and hasattr(given, "map"):
            return DocumentProfile.of(table, drawn(given), changes=False)
        if callable(given):
            choose = Random(0)
            made: list[Any] = [given(choose) for _ in range(_POOL)]
            return DocumentProfile.of(table, made, changes=False)
        return DocumentProfile.of(table, given)


def makers(app: App, docs: Any = None, folder: str = "") -> Makers:
    """Return the sources of documents: `docs` by table, or for an app with one table the source itself."""
    if docs is None:
        return Makers(app, folder=folder)
    if not isinstance(docs, Mapping):
        names = [table.name for table in app.tables()]
        if len(names) != 1:
            raise DefinitionError(f"{app!r} has the tables {', '.join(names)}; give docs={{table: …}}")
        docs = {names[0]: docs}
    for name in docs:
        app.table_of(name)
    return Makers(app, docs, folder)


def read_sample(path: str, table: str) -> list[Doc]:
    """Read the first documents of a file."""
    spout = open_file(path, table)
    try:
        spout.begin(lambda _: None)
        batch = spout.next_batch(_READ)
    finally:
        spout.close()
    if batch is None:
        return []
    if not batch.raw:
        return list(map(unpack_document, batch.records.lines))
    out: list[Doc] = []
    for line in batch.records.lines:
        with suppress(Refused):
            out.append(dict(parsed(line)))
    return out


def drawn(strategy: Any, count: int = _POOL, seed: int = 0) -> list[Any]:
    """Draw documents from a Hypothesis strategy, the same ones each time."""
    try:
        import hypothesis
    except ImportError:
        raise MissingExtra("hypothesis", "testing") from None
    out: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.filter_too_much,
            hypothesis.HealthCheck.data_too_large,
            hypothesis.HealthCheck.large_base_example,
        ],
    )
    @hypothesis.given(strategy)
    def draw(doc: Any) -> None:
        out.append(doc)

    draw()
    return out


# -- learning


def _gather(doc: Mapping[str, Any], head: Path, fixed: set[Path], pools: dict[Path, list[Any]]) -> None:
    for name, value in doc.items():
        path = (*head, name)
        if path in fixed:
            continue
        if isinstance(value, Mapping) and value:
            _gather(value, path, fixed, pools)
        else:
            pools.setdefault(path, []).append(value)


def _near(choose: Random, pool: tuple[Any, ...]) -> Any:
    """Return a value of the pool, or for a number perhaps another number within the pool's range."""
    value = choose.choice(pool)
    if isinstance(value, bool) or not isinstance(value, int | float) or choose.random() < 0.5:
        return deepcopy(value)
    if isinstance(value, int):
        whole = [v for v in pool if type(v) is int]
        return choose.randint(min(whole), max(whole))
    parts = [v for v in pool if type(v) is float]
    return choose.uniform(min(parts), max(parts))


def _put(doc: Doc, path: Path, value: Any) -> None:
    for name in path[:-1]:
        inner = doc.get(name)
        if not isinstance(inner, dict):
            inner = doc[name] = {}
        doc = inner
    doc[path[-1]] = value


def _least(stamps: list[Any]) -> Any:
    """Return the least ts of the type of the first one."""
    found: list[tuple[Any, Any]] = []
    for ts in stamps:
        try:
            _, moment = moment_of(ts)
        except Refused:
            continue
        if not found or isinstance(ts, str) == isinstance(found[0][1], str):
            found.append((moment, ts))
    return min(found, key=lambda one: one[0])[1] if found else None


def _moved(start: Any, now: int) -> Any:
    """Return the ts that is `now` steps after the first one."""
    if not isinstance(start, str):
        return start + now
    base = datetime.fromtimestamp(float(moment_of(start)[1]), UTC)
    return (base + timedelta(seconds=now)).isoformat().replace("+00:00", "Z")


def _from_definitions(app: App, table: Table) -> list[Doc]:
    """Generate documents with the fields that views by fields read. Raise if a function reads unknown fields."""
    views = [view for view in app.views() if view.source is table]
    groups: set[Path] = set()
    numbers: set[Path] = set()
    for view in views:
        if not isinstance(view.map, FieldMap):
            raise DefinitionError(
                f"table {table.name!r} has no sample=, and what the function of view {view.name!r} reads can't be "
                "seen; give the table sample='a file of documents', or name documents for it"
            )
        groups.update(view.map.key.paths)
        read = (view.map.path_of(field) for field in fields_read(view.reducers) if field != TS)
        numbers.update(path for path in read if path is not None)
        if view.map.where is not None:
            numbers.update(view.map.where.paths())
    choose = Random(0)
    return [_made(choose, i, table, groups, numbers) for i in range(60)]


def _made(choose: Random, number: int, table: Table, groups: set[Path], numbers: set[Path]) -> Doc:
    doc: Doc = {}
    for path in sorted(groups):
        _put(doc, path, choose.choice(("Sue", "Joe", "Bob", "Ann", None)))
    for path in sorted(numbers):
        _put(doc, path, choose.choice((1, 2, -3, 0.5, 250, True, None) if path not in groups else ("Sue", "Joe")))
    for path in table.key.paths:
        _put(doc, path, 1 + number % 20)
    if table.ts is not None:
        _put(doc, table.ts, number)
    return doc
