"""The checks of a simulated store. Each has a name, and yields a finding if its condition does not hold.

check        condition
documents    every table holds the winning versions of the committed records
views        every view equals a recomputation from its source
held         a view holds exactly the documents that its map refuses
lost         no acknowledged record is missing
strict       a strict batch with a rejected record is refused as a whole
position     the position follows from the commits that returned; epochs only grow
snapshot     an open snapshot does not change
content      the digest equals that of a fresh store with the same winning versions
published    the last published value of each group is the one that its view shows
pending      nothing is pending at rest
progress     the healing phase delivers and publishes everything
generations  during a build, the views to be replaced keep their rows, and no other view is missing
feed         the changes of the feed lead a subscriber to the rows that a reader sees
mended       a repair of a correct store changes nothing
quarantine   the quarantine has each rejected record once
raised       the engine raises only errors that a fault explains

A partitioned store has further checks:

atomic       every owner has its records of a saved atomic batch
order        a partition takes its records of a saved atomic batch before any other batch
epoch        each writer of a partition has a greater epoch than the one before
zombie       a receiver refuses messages of an earlier epoch
saved        readers of saved changes see only saved records
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from penstock.cache import Limits, MemoryStore, decode_key, encode_key, is_long, stored_key, value_text
from penstock.engine import Core, Engine, Snapshot, open_on
from penstock.mapreduce import rows_db
from penstock.recovery import ExpectedRow, RecomputedView, accepted_documents, identity, rank, side_holds
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.simulator.publisher import Downstream
from penstock.views import Row, View

ABSENT = "no row"
HASH_SEED = 7
"""The seed of the hashes of keys, the same in all simulated stores."""

_SEVERAL = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that does not hold: the place, and the actual and the expected value."""

    check: str
    where: str
    text: str
    view: str = ""
    group: Any = None  # or the key of a document
    by: tuple[tuple[Any, Any], ...] = field(default=(), repr=False)  # the documents that should count there

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: {self.text}"


class Wrong(Exception):
    """At least one check failed."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings[:_SEVERAL])))

    @property
    def first(self) -> Finding:
        """The first finding."""
        return self.findings[0]


def demand(findings: Iterable[Finding]) -> None:
    """Raise `Wrong` if there are findings."""
    found = list(findings)
    if found:
        raise Wrong(found)


def differences(
    snap: Snapshot, oracle: Oracle, exempt: Collection[str] = (), lenient: bool = False
) -> Iterator[Finding]:
    """Yield the differences between a snapshot and the oracle. Skip `exempt` views and views that wait to be replaced.

    Skip also views on a join that holds a document: the join has rows of its last accepted version.
    If `lenient`, views may hold documents that they could take by now.
    """
    for name, documents in oracle.tables.items():
        yield from _documents(name, documents.living(), snap)
    rows: dict[str, list[Any]] = {}

    def shown(name: str) -> list[Any]:
        return rows[name] if name in rows else list(snap.view(name).items())

    for view in oracle.app.views():
        if view.name in exempt or view.name not in snap.schema.views or snap.schema.as_of(view.name) is not None:
            continue
        rows[view.name] = list(snap.view(view.name).items())
        wanted = oracle.over(view, shown, partial(accepted_documents, snap))
        yield from _view(view, rows[view.name], wanted, snap, lenient)


def _documents(name: str, wanted: list[tuple[Any, Any]], snap: Snapshot) -> Iterator[Finding]:
    got = {rank(key): (key, doc) for key, doc in snap.table(name).items()}
    for key, doc in wanted:
        found = got.pop(rank(key), None)
        if found is None or identity(found[1]) != identity(doc):
            text = "nothing" if found is None else repr(found[1])
            yield Finding("documents", f"table {name!r}, key {key!r}", f"holds {text}, should hold {doc!r}", group=key)
    for key, doc in got.values():
        yield Finding("documents", f"table {name!r}, key {key!r}", f"holds {doc!r}, should hold nothing", group=key)


def _view(view: View, got: list[Any], should: RecomputedView, snap: Snapshot, lenient: bool) -> Iterator[Finding]:
    held = {rank(hold["key"]): hold["key"] for hold in snap.holds(view.name)}
    refused = {rank(key): (key, reason) for key, reason in _shown(view, should.held.values())}
    name, where = view.name, f"view {view.name!r}"
    for at in sorted(held.keys() ^ refused.keys()):
        if at in held and lenient:
            continue
        if at in held:
            yield Finding("held", where, f"{held[at]!r} is held, and its map takes it", name, held[at])
        else:
            key, reason = refused[at]
            yield Finding("held", where, f"{key!r} is not held, and its map refuses it: {reason}", name, key)
    rows = {rank(row.key): row for row in got}
    if sorted(rows) != list(rows):
        yield Finding("views", where, f"groups are out of order: {[row.key for row in got]!r}", name)
    for at in sorted(rows.keys() | should.rows.keys()):
        if lenient and at in should.rows and any(rank(key) in held for key, _ in _shown(view, should.rows[at].by)):
            continue  # the oracle counts a held document there
        finding = _row(name, rows.get(at), should.rows.get(at))
        if finding is not None:
            yield finding


def _shown(view: View, keyed: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield pairs that begin with a key of the oracle, with the keys that users see."""
    return ((view.source.shown_key(key), other) for key, other in keyed)


def _row(name: str, got: Row | None, should: ExpectedRow | None) -> Finding | None:
    if got is not None and got.held:
        return None  # counts a held document's last accepted emission, or shows the last good result
    if should is None:
        assert got is not None, "asked where there is one of the two"
        where = f"view {name!r}, group {got.key!r}"
        return Finding("views", where, f"shows {got.value!r}, should have no row", name, got.key)
    group, by = should.group, tuple(should.by)
    where = f"view {name!r}, group {group!r}"
    if should.refused:
        return Finding("held", where, f"is not held, and its reducer refuses it: {should.refused}", name, group, by)
    if got is None:
        return Finding("views", where, f"has no row, should show {should.result!r}", name, group, by)
    if identity(got.value) == identity(should.result) and identity(got.key) == identity(group):
        return None
    return Finding("views", where, f"shows {got.value!r}, should show {should.result!r}", name, group, by)


def shown_rows(snap: Snapshot) -> dict[str, Any]:
    """Return all rows that a snapshot shows, for a later comparison."""
    tables = {f"table {name!r}": snap.table(name) for name in snap.schema.tables}
    views = {f"view {name!r}": snap.view(name) for name in snap.schema.views}
    return {name: [identity(tuple(row)) for row in reader.items()] for name, reader in (tables | views).items()}


def changed_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the differences between two readings of one snapshot."""
    for name, rows in before.items():
        if rows != after[name]:
            gone = [row for row in rows if row not in after[name]]
            come = [row for row in after[name] if row not in rows]
            yield Finding("snapshot", name, f"an open snapshot changed: {gone[:3]!r} became {come[:3]!r}")


def published(
    got: Mapping[bytes, tuple[Any, Any]], view: str, rows: Mapping[bytes, tuple[Any, Any]]
) -> Iterator[Finding]:
    """Yield the differences between a view's rows and the values that downstream holds."""
    for key in sorted(got.keys() | rows.keys()):
        group = (rows.get(key) or got[key])[0]
        answered, shows = (repr(r[key][1]) if key in r else ABSENT for r in (got, rows))
        if key not in got or key not in rows or identity(got[key][1]) != identity(rows[key][1]):
            text = f"last published {answered}, shows {shows}"
            yield Finding("published", f"view {view!r}, group {group!r}", text, view, group)


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine and its core."""

    engine: Engine
    core: Core

    def raw(self, view: str) -> dict[bytes, bytes]:
        """Return a view's rows as they are stored."""
        with self.core.store.read() as reader:
            return dict(reader.scan(rows_db(self.core.views[view].number)))


def content(one: Opened, twin: Opened) -> Iterator[Finding]:
    """Compare the content of two engines by digest. If it differs, yield the differing rows of views."""
    if one.engine.digest() == twin.engine.digest():
        return
    what = "differs in its bytes from that of a fresh store with the same winning versions"
    for view in one.core.app.views():
        rows, others = one.raw(view.name), twin.raw(view.name)
        for key in sorted(rows.keys() | others.keys()):
            if rows.get(key) != others.get(key):
                group = value_text(key) if is_long(key) else decode_key(key)
                yield Finding("content", f"view {view.name!r}, group {group!r}", f"its row {what}", view.name, group)
    yield Finding("content", "store", f"what it holds {what}")


def at_rest(
    opened: Opened,
    oracle: Oracle,
    downstream: Downstream,
    exempt: Collection[str],
) -> Iterator[Finding]:
    """Check a store after everything was delivered and published.

    Compare the published values with the views. If nothing is held, compare the content with a fresh store.
    """
    calm = yield from as_published(opened.engine, oracle, downstream)
    if calm and not exempt:
        yield from content(opened, twin_of(oracle))


def as_published(engine: Engine, oracle: Oracle, downstream: Downstream) -> Generator[Finding, None, bool]:
    """Yield the differences between views and published values. Return whether no view holds anything."""
    calm, last = True, downstream.views()
    with engine.snapshot() as snap:
        for view in oracle.app.views():
            rows = list(snap.view(view.name).items())
            wanted = {stored_group(r.key): (r.key, r.value) for r in rows}
            yield from published(last.pop(view.name, {}), view.name, wanted)
            calm = calm and not any(row.held for row in rows) and not snap.holds(view.name)
        calm = calm and not any(side_holds(snap, join) for join in oracle.app.joins())
    for name, rest in last.items():
        yield from published(rest, name, {})
    return calm


def twin_of(oracle: Oracle) -> Opened:
    """Return a fresh store with the same winning versions. All its batches are processed in columns."""
    engine, core = open_on(oracle.app, MemoryStore(), Limits(few=0), HASH_SEED)
    for waves in zip_longest(*(documents.again() for documents in oracle.tables.values()), fillvalue=()):
        engine.ingest([replace(record, offset=None) for wave in waves for record in wave], "again", 0)
    return Opened(engine, core)


def stored_group(group: Any) -> bytes:
    """Return the key of a group's row."""
    return stored_key(encode_key(group))
