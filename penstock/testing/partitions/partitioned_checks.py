"""The checks of a partitioned store after everything was delivered and published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.engine import Core, Engine, Member
from penstock.mapreduce import rows_db
from penstock.recovery import BEFORE, DELAYED, OUT
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.simulator.checks import Finding, as_published, twin_of
from penstock.testing.simulator.operator import Operator
from penstock.testing.simulator.publisher import Downstream, Pub


@dataclass(frozen=True, slots=True)
class AtRest:
    """A partitioned store that gets no more input."""

    engine: Engine
    members: Sequence[Member]
    pubs: Sequence[Pub]
    downstream: Downstream
    oracle: Oracle
    store_operator: Operator

    def findings(self) -> Iterator[Finding]:
        """Yield the failed checks."""
        yield from self._pending()
        calm = yield from as_published(self.engine, self.oracle, self.downstream)
        if calm:
            yield from self._content()

    def _pending(self) -> Iterator[Finding]:
        for i, member in enumerate(self.members):
            with member.core.store.read() as reader:
                if reader.count(OUT):
                    yield Finding("pending", f"partition {i}", "has productions that nobody waits for")
                if reader.count(DELAYED):
                    yield Finding("pending", f"partition {i}", "delays productions without an early set")
                if reader.count(BEFORE):
                    yield Finding("pending", f"partition {i}", "keeps what was there before what is in for long")
            if self.pubs[i].pending:
                yield Finding("pending", f"the node that publishes partition {i}", "has groups that wait for ever")
        yield from self.store_operator.quarantine(self.engine, self.oracle)

    def _content(self) -> Iterator[Finding]:
        twin = twin_of(self.oracle)
        if self.engine.digest() != twin.engine.digest():
            yield from self._rows(twin.core)
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
