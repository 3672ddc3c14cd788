"""What must hold of a store of several partitions once all is delivered, carried and published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from penstock.cache import Limits, MemoryStore
from penstock.engine import Core, Engine, Member, open_on
from penstock.mapreduce import rows_db
from penstock.recovery import OUT
from penstock.testing.checks import HASH_SEED, Finding, published, stored_group
from penstock.testing.oracle import Oracle
from penstock.testing.pub import Downstream, Pub
from penstock.views import App


@dataclass(frozen=True, slots=True)
class AtRest:
    """A store that nobody gives anything any more."""

    app: App
    engine: Engine
    members: Sequence[Member]
    pubs: Sequence[Pub]
    downstream: Downstream
    oracle: Oracle

    def findings(self) -> Iterator[Finding]:
        """What does not hold."""
        yield from self._pending()
        exact, last = True, self.downstream.views()
        with self.engine.snapshot() as snap:
            for view in self.app.views():
                rows = list(snap.view(view.name).items())
                wanted = {stored_group(r.key): (r.key, r.value) for r in rows}
                yield from published(last.pop(view.name, {}), view.name, wanted)
                exact = exact and not any(row.held for row in rows) and not snap.holds(view.name)
        for name, rest in last.items():
            yield from published(rest, name, {})
        if exact:
            yield from self._content()

    def _pending(self) -> Iterator[Finding]:
        kept = 0
        for i, member in enumerate(self.members):
            with member.core.store.read() as reader:
                if reader.count(OUT):
                    yield Finding("pending", f"partition {i}", "has productions that nobody waits for")
            if self.pubs[i].pending:
                yield Finding("pending", f"the node that publishes partition {i}", "has groups that wait for ever")
            kept += member.core.state.quarantined
        if kept != self.oracle.refused:
            yield Finding("quarantine", "store", f"has {kept} records, {self.oracle.refused} were refused")

    def _content(self) -> Iterator[Finding]:
        twin, core = open_on(self.app, MemoryStore(), Limits(few=0), HASH_SEED)
        for waves in zip_longest(*(documents.again() for documents in self.oracle.tables.values()), fillvalue=()):
            twin.ingest([replace(record, offset=None) for wave in waves for record in wave], "again", 0)
        if self.engine.digest() != twin.digest():
            yield from self._rows(core)
            yield Finding("content", "store", "holds something else than a store in one piece")

    def _rows(self, twin: Core) -> Iterator[Finding]:
        for name, node in twin.views.items():
            own: dict[bytes, bytes] = {}
            for member in self.members:
                with member.core.store.read() as reader:
                    own |= dict(reader.scan(rows_db(node.number)))
            with twin.store.read() as reader:
                rows = dict(reader.scan(rows_db(node.number)))
            for key in sorted(own.keys() | rows.keys()):
                if own.get(key) != rows.get(key):
                    where = f"view {name!r}, row {key!r}"
                    yield Finding("content", where, "differs from that of a store in one piece", name)
