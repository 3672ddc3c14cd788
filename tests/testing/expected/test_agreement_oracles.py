"""Compare two independent oracles over the same histories: the oracle of the tests, and the one of the package."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.testing.expected.expected_views import Oracle
from tests.harness.oracle_app import app_of
from tests.harness.strategies import NUMBERS, documents
from tests.harness.worlds import RICH, TABLES
from tests.oracle.model import Record
from tests.oracle.tables import Table
from tests.oracle.values import identity, rank

RECORDS = {
    table.name: st.tuples(
        documents(table, NUMBERS), st.sampled_from([None, None, *NUMBERS]), st.sampled_from([False] * 4 + [True])
    )
    for table in TABLES
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@settings(max_examples=25)
@given(data=st.data())
def test_documents_and_views_agree(table: Table, data: st.DataObject) -> None:
    views = [v for v in RICH.views if v.source == table.name]
    views += [v for v in RICH.views if v.source in {own.name for own in views}]
    model, oracle = RICH.model(), Oracle(app_of(TABLES, RICH.views))
    for doc, ts, gone in data.draw(st.lists(RECORDS[table.name], max_size=12)):
        key = _key(table, doc)
        record = Record(table.name, key, None if gone else doc, ts)
        with model.batch() as batch:
            if gone:
                batch.delete(table.name, key, ts)
            else:
                batch.put(table.name, doc, ts)
        oracle.take([ps.Record(record.table, record.key, record.doc, record.ts)])
    living = model.living(table.name)
    assert _same([living[where] for where in sorted(living)]) == _same(oracle.tables[table.name].living())
    for view in views:
        told = model.told[view.name]
        found = oracle.view(view.name)
        if view.source == table.name:
            assert {rank(key) for key, _ in found.held.values()} == told.held
        if not any(model.told[v.name].held for v in views) and not any(r.held for r in model.rows[view.name].values()):
            rows = [(shown.group, shown.result) for shown in model.rows[view.name].values()]
            assert _same(rows) == _same(found.sorted())


def _key(table: Table, doc: dict[str, Any]) -> Any:
    parts = [doc.get("id"), (doc.get("org") or {}).get("name")]
    return tuple(parts) if isinstance(table.key, tuple) else parts[0]


def _same(rows: Any) -> list[Any]:
    return [(identity(key), identity(value)) for key, value in rows]


def test_every_reducer_of_the_package_has_a_recipe() -> None:
    from penstock.recovery import RECIPES

    made = {
        ps.sum(), ps.mean(), ps.variance(), ps.stddev(), ps.histogram([0]), ps.min(), ps.max(), ps.top(1), ps.bottom(1),
        ps.collect(1), ps.first(), ps.last(), ps.distinct(), ps.quantiles([0.5]),
        ps.argmax(None, "f"), ps.argmin(None, "f"), ps.only(), ps.any(), ps.all(),
    }  # fmt: skip
    names = {str(reducer.describe()["reducer"]) for reducer in made}
    assert names == set(RECIPES)
    offered = {name for name in ps.__all__ if hasattr(getattr(ps, name), "__doc__") and name in dir(ps)}
    there = "penstock.mapreduce.reducers."
    reducers = {
        name for name in offered if callable(getattr(ps, name)) and getattr(ps, name).__module__.startswith(there)
    }
    assert reducers - {"count", "group", "monoid"} == names
