"""Records for a user's app: documents like those of a table's sample file, or those of a strategy the user names.

Of a sample the types, ranges and shares of each field are learnt, and how often which key comes. A document that is
made is one of the sample with some fields taken from others of it or from their ranges, under a key that others have
too, at a moment near the present: versions that are late, equal and new, and now and then a deletion. What a strategy
draws is only given keys that meet; its fields are its own.
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
from penstock.views import App, FieldMap, Path, Table

_READ, _POOL = 2_000, 200
_SPANS = (3, 6, 6, 24)
_GONE, _CHANGED = 0.12, 0.25
Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Learnt:
    """What documents of one table are like; `changes` unless their fields are to be left as they are."""

    table: Table
    docs: tuple[Doc, ...]
    keys: tuple[Any, ...]  # the commonest first
    weights: tuple[int, ...]
    pools: Mapping[Path, tuple[Any, ...]]
    changes: bool
    start: Any = None  # the least ts

    @classmethod
    def of(cls, table: Table, docs: Iterable[Mapping[str, Any]], changes: bool = True) -> Learnt:
        """What these documents are like."""
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
        """One more document, under this key."""
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
class Stream:
    """Records of all tables of an app, for one run."""

    learnt: Sequence[Learnt]
    now: int = 0
    span: int = 0
    wide: bool = False

    def widen(self) -> None:
        """All keys of the sample from now on."""
        self.wide = True

    def record(self, choose: Random) -> Record:
        """The next one."""
        self.now += 1
        self.span = self.span or choose.choice(_SPANS)
        own = choose.choice(self.learnt)
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
    """Where documents of an app's tables come from."""

    app: App
    given: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""

    def learnt(self) -> tuple[Learnt, ...]:
        """What is known of each table's documents."""
        return tuple(self.of(table) for table in self.app.tables())

    def of(self, table: Table) -> Learnt:
        """What is known of one table's."""
        given = self.given.get(table.name)
        if given is None and table.sample is not None:
            return Learnt.of(table, read_sample(os.path.join(self.folder, table.sample), table.name))
        if given is None:
            return Learnt.of(table, _from_definitions(self.app, table))
        if isinstance(given, str | os.PathLike):
            return Learnt.of(table, read_sample(os.fspath(given), table.name))
        if hasattr(given, "example") and hasattr(given, "map"):
            return Learnt.of(table, drawn(given), changes=False)
        if callable(given):
            choose = Random(0)
            made: list[Any] = [given(choose) for _ in range(_POOL)]
            return Learnt.of(table, made, changes=False)
        return Learnt.of(table, given)


def makers(app: App, docs: Any = None, folder: str = "") -> Makers:
    """Where documents come from: `docs` by table, or for an app of one table itself."""
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
    """The first documents of a file."""
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
    """What a Hypothesis strategy draws, the same each time."""
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
    """A value of the pool, or of numbers one within their range."""
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
    """The least ts, of the kind of the first."""
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
    """A ts so many steps after the first one."""
    if not isinstance(start, str):
        return start + now
    base = datetime.fromtimestamp(float(moment_of(start)[1]), UTC)
    return (base + timedelta(seconds=now)).isoformat().replace("+00:00", "Z")


def _from_definitions(app: App, table: Table) -> list[Doc]:
    """Documents with the fields that views by fields read; a function's fields can't be known."""
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
        numbers.update(p for r in view.reducers if (p := view.map.path_of(r.field)) is not None)
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
