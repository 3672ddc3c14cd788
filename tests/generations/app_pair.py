"""Two apps of one store: the second changes the first in every way. A store on its way from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import Core, Engine, open_on
from penstock.spout import Record
from tests.harness.histories import LastingStore
from tests.harness.worlds import TINY

SEED = 7
# Views that stay unchanged, that change under the same name, that are new, and that are dropped.
SAME = ("same", "tags")
CHANGED = ("totals", "counts", "sums", "letters", "over", "deep", "sizes", "under", "spread", "most", "kept", "listed")
NEW = ("fresh", "freshly")
DROPPED = ("gone", "going")
Shown = dict[str, list[tuple[Any, Any, bool]]]


def _tables(app: ps.App) -> tuple[ps.Table, ps.Table, ps.Table]:
    users, orders = app.table("users", key="id", ts="ts"), app.table("orders", key="id", merge="patch")
    return users, orders, app.table("plain", key="id")


def tags(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield any number of emissions, some of them equal."""
    for tag in doc.get("tags") or ():
        yield tag, doc["id"]


def first() -> ps.App:
    """Return the app that fills the store."""
    app = ps.App("shop")
    users, orders, plain = _tables(app)
    same = users.view("same", key="g", reduce=ps.count())
    plain.view("tags", reduce={"n": ps.count(), "s": ps.sum()})(tags)
    users.view("sums", key="g", value="v", reduce=ps.sum())

    @users.view(reduce=ps.count())
    def letters(doc: dict[str, Any]) -> Iterator[Any]:
        yield (doc.get("g") or "")[:1]

    @letters.view(reduce=ps.sum())
    def over(row: ps.Row) -> Iterator[Any]:
        yield row.value % 3, row.value

    over.view("deep", key="value", reduce=ps.count())

    @same.view(reduce=ps.sum())
    def sizes(row: ps.Row) -> Iterator[Any]:
        yield row.value % 2, row.value

    sizes.view("under", key="key", value="value", reduce=ps.max())
    same.view("spread", key="value", reduce=ps.count())
    users.view("most", key="g", reduce=ps.max("v"))
    orders.view("kept", key="g", value="v", reduce=ps.sum(), sources=True)
    plain.view("listed", key="g", value="v", reduce=None)
    gone = plain.view("gone", key="g", reduce=ps.count())
    gone.view("going", key="value", reduce=ps.count())
    few = app.table("few", key="id", ts="ts")  # small batches take the path for single records
    few.view("totals", key="g", value="v", reduce=ps.sum())

    @few.view(reduce=ps.count())
    def counts(doc: dict[str, Any]) -> Iterator[Any]:
        yield doc.get("h")

    return app


def second() -> ps.App:
    """Return the app that the store changes to."""
    app = ps.App("shop")
    users, orders, plain = _tables(app)
    same = users.view("same", key="g", reduce=ps.count())
    plain.view("tags", reduce={"n": ps.count(), "s": ps.sum()})(tags)
    users.view("sums", key=("g", "h"), value="v", reduce={"total": ps.sum(), "n": ps.count()})

    @users.view(reduce=ps.count())
    def letters(doc: dict[str, Any]) -> Iterator[Any]:
        yield from set(doc.get("g") or "")

    @letters.view(reduce=ps.sum())
    def over(row: ps.Row) -> Iterator[Any]:
        yield row.value % 3, row.value

    over.view("deep", key="value", reduce=ps.count())

    @same.view(reduce=ps.sum())
    def sizes(row: ps.Row) -> Iterator[Any]:
        yield row.value % 3, row.value + 1

    sizes.view("under", key="key", value="value", reduce=ps.max())
    same.view("spread", key="value", value="value", reduce=ps.sum())
    users.view("most", key="g", reduce={"last": ps.last("v"), "kinds": ps.distinct("v"), "top": ps.top(2, "v")})
    orders.view("kept", key="g", value="v", where=ps.field("v") > 0, reduce=ps.sum(), sources=True)
    plain.view("listed", key="h", value="v", reduce=None)

    @plain.view(reduce={"n": ps.count(), "least": ps.min()})
    def fresh(doc: dict[str, Any]) -> Iterator[Any]:
        for tag in doc.get("tags") or ():
            yield tag, doc.get("v")
        yield (doc.get("g"), doc.get("h")), doc["id"]

    fresh.view("freshly", key="value.n", reduce={"n": ps.count(), "k": ps.max("key")})
    few = app.table("few", key="id", ts="ts")
    few.view("totals", key=("h", "g"), where=ps.field("g") != "Joe", reduce={"s": ps.sum("v"), "n": ps.count()})

    @few.view(reduce=ps.sum())
    def counts(doc: dict[str, Any]) -> Iterator[Any]:
        for group in doc.get("tags") or ("none",):
            yield group, doc.get("v")

    return app


def shown(engine: Engine, names: Sequence[str]) -> Shown:
    """Return all rows of these views."""
    with engine.snapshot() as snap:
        return {name: [(row.key, row.value, row.held) for row in snap.view(name)] for name in names}


def take(engine: Engine, records: Sequence[Record]) -> None:
    """Put records in one transaction."""
    with engine.batch() as batch:
        for record in records:
            if record.doc is None:
                batch.delete(record.table, record.key, record.ts)
            else:
                batch.put(record.table, record.doc)


class Moving:
    """A store that the first app filled, and that is opened with the second."""

    def __init__(self, batches: Sequence[Sequence[Record]] = (), few: int = TINY.few) -> None:
        self.store = LastingStore()
        self.limits = replace(TINY, few=few)  # larger batches are taken as columns
        self.taken: list[Sequence[Record]] = []
        self.engine: Engine
        self.core: Core
        self.open(first())
        for batch in batches:
            self.take(batch)

    def open(self, app: ps.App | None = None) -> None:
        """Open the store. The former engine may be closed or lost."""
        self.engine, self.core = open_on(app or second(), self.store, self.limits, SEED)

    def take(self, records: Sequence[Record]) -> None:
        """Put records in one transaction, and remember them."""
        take(self.engine, records)
        self.taken.append(records)

    def finish(self, limit: int = 3) -> int:
        """Do the other steps of the build. Return their number."""
        steps = 1
        while self.core.build_step(limit):
            steps += 1
        return steps

    def fresh(self) -> Engine:
        """Return a store of the second app that took the same records."""
        engine, _ = open_on(second(), MemoryStore(), None, SEED)
        for records in self.taken:
            take(engine, records)
        return engine

    def check(self) -> None:
        """Compare the content with that of a store that the second app filled, in memory and as read again."""
        fresh = self.fresh()
        names = [view.name for view in second().views()]
        assert shown(self.engine, names) == shown(fresh, names)
        assert self.engine.digest() == fresh.digest(), "rows agree, and content does not"


def followed(
    changes: Sequence[ps.Change] | Iterator[Any], views: dict[tuple[str, Any], Any]
) -> dict[tuple[str, Any], Any]:
    """Apply changes to the rows of views, and return the rows. Each change must begin at the stored row."""
    for change in changes:
        key = change.view, change.group
        assert views.get(key, ps.ABSENT) == change.old, f"{change} comes to {views.get(key, ps.ABSENT)}"
        with suppress(KeyError):
            del views[key]
        if change.new is not ps.ABSENT:
            views[key] = change.new
    return views
