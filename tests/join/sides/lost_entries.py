"""An engine with orders, customers and lines, and a check that lost entries of its side indexes are put again."""

from __future__ import annotations

from typing import Any

import penstock as ps
from penstock.join import Entries
from penstock.mapreduce import Writes
from penstock.testing import TestEngine


def filled(app: ps.App) -> TestEngine:
    """Return an engine of the app with three orders, their customers, and two lines of each."""
    own = TestEngine(app)
    own.put("customers", {"id": 1, "country": "no"}, {"id": 2, "country": "se"})
    own.put("orders", *({"id": key, "c": 1 + key % 2} for key in range(3)))
    own.put("lines", *({"id": key, "order": key % 3, "a": key} for key in range(6)))
    return own


def check_lost_entries(engine: TestEngine, side: str, mend: str, join: str) -> None:
    """Lose all entries of a side. The check finds that, and each way to mend it leaves the right views."""
    store: Any = engine.engine.store

    def lose(writer: Any, writes: Writes) -> None:
        index = store.core.joins.sides[side].index
        index.stage(writer, Entries.join(list(index.all(writer))), Entries.none(index.width), writes)
        writes.changed = True

    store.core.amend(lose)
    store.core.forget()
    assert not engine.engine.check().ok
    if mend == "check":
        engine.engine.check(fix=True)
    elif mend == "restate":
        engine.engine.restate(join)
    else:
        engine.engine.restate("lines" if side == "items:line" else "orders", 1)
    found = engine.engine.check()
    assert found.ok, found
    engine.put("customers", {"id": 1, "country": "dk"})
    assert engine.view("sums") == {"dk": 10, "se": 5}
