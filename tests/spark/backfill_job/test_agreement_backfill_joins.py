"""A backfill of an app with joins and the engine give equal stores: side indexes, limits, rows, emissions, the digest.

The apps of the histories of joins have every kind of join and of side. Later writes continue both stores alike.
Planted bugs must be found.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import DefinitionError
from penstock.join import Entries
from penstock.mapreduce import LaneKind, SourceKeys
from penstock.spark import backfill
from penstock.spark.backfill_job.join_tasks import ConditionRanges
from penstock.views import Merge
from tests.harness.planting import Bug
from tests.join import engine_histories
from tests.join.engine_histories import chained, layered, nested, shop
from tests.spark.both import agreed, in_small_parts, one_by_one, same, topic
from tests.spark.inprocess import InProcess
from tests.spark.verify_job.test_verify_joins import CUSTOMERS, ORDERS, sales

APPS = [shop, layered, nested, chained]


def of_json(document: Any) -> dict[str, Any] | None:
    """Return a document without the values that JSON lacks."""

    def known(value: Any) -> Any:
        if isinstance(value, bytes):
            return "b"
        return 0.5 if isinstance(value, float) and math.isnan(value) else value

    return None if document is None else {name: known(value) for name, value in document.items()}


def history(seed: int, size: int) -> list[ps.Record]:
    """Return the records of a history over both tables, in the order of their offsets."""
    choose, out = Random(seed), list[ps.Record]()
    while len(out) < size:
        for record in engine_histories.records(choose, 2 * len(out), 30):
            out.append(ps.Record(record.table, record.key, of_json(record.doc), offset=len(out) + 1))
    return out


def held() -> list[ps.Record]:
    """Return documents that a side holds, rows that a view holds, null condition values, and a value above a limit."""
    docs = [("orders", {**doc, "customer": doc["id"] % 9}) for doc in ORDERS]
    docs += [("customers", {**doc, "both": doc["id"], "to": doc["id"] % 4}) for doc in CUSTOMERS]
    docs += [("orders", {"id": 90, "customer": {"a": 1}, "to": 1, "amount": 1})]
    docs += [("orders", {**ORDERS[40], "id": 91, "customer": 4, "to": 0, "tags": [7]})]
    docs += [("orders", {"id": 92, "customer": None, "to": None, "amount": 2})]
    return [ps.Record(table, doc["id"], doc, offset=n) for n, (table, doc) in enumerate(docs, 1)]


def continued(app: ps.App, records: Sequence[ps.Record], path: Path, later: Sequence[ps.Record]) -> None:
    """Write later records to a store that was filled in bulk, and to an engine that wrote all of them."""
    with one_by_one(app, records) as engine, ps.open(app, path) as bulk:
        for own in (engine, bulk):
            own.ingest([ps.Record(r.table, r.key, r.doc) for r in later], source="later", resume=1)
        assert bulk.digest() == engine.digest()
    with one_by_one(app, [*records, *later]) as engine:
        same(app, engine, path)


def check(folder: Path, app: ps.App, records: list[ps.Record], later: Sequence[ps.Record] = ()) -> None:
    """Compare both paths, in tasks of a few records each, then later writes."""
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch)
        agreed(patch, folder, app, records)
    if later:
        continued(app, records, folder / "store", later)


@settings(max_examples=4, phases=[Phase.generate])
@given(
    seed=st.integers(0, 1 << 32),
    size=st.sampled_from([1, 40, 120]),
    app_of=st.sampled_from(APPS),
    merge=st.sampled_from(list(Merge)),
    ts=st.sampled_from(["ts", None]),
    filtered=st.booleans(),
)
def test_every_kind_of_join_and_side(
    seed: int, size: int, app_of: Callable[..., ps.App], merge: Merge, ts: str | None, filtered: bool
) -> None:
    records = history(seed, size + 20)
    with TemporaryDirectory() as folder:
        check(Path(folder), app_of(merge, ts, filtered), records[:size], records[size:])


def test_holds_of_sides_rows_and_condition_values(tmp_path: Path) -> None:
    check(tmp_path, sales(), held())
    with ps.open(sales(), tmp_path / "store") as engine:
        assert {one.view for one in engine.quarantine()} == {"sold", "pairs", "tags"}
        engine.put("orders", {**ORDERS[3], "to": Decimal(1)})  # it is held with its last accepted version
        engine.delete("orders", 6)  # below the limit
        assert not engine.check().wrong


def test_on_spark(spark: Any, tmp_path: Path) -> None:
    app, records = sales(), held()
    with one_by_one(app, records) as engine:
        given = {name: topic(spark, [r for r in records if r.table == name]) for name in ("orders", "customers")}
        told: list[str] = []
        backfill(
            app, tmp_path / "store", spark=spark, tables=given, progress=lambda what, done, total: told.append(what)
        )
        assert {"joins", "loading joins"} <= set(told)
        same(app, engine, tmp_path / "store")


def test_entries_with_a_null_condition_value_are_divided_by_their_keys() -> None:
    values, keys = SourceKeys.of([5] * 400), SourceKeys.of(list(range(400)))
    null = np.arange(400) % 2 == 0
    parts = dict(ConditionRanges("sold", 10, 2).split(Entries.of(values, keys, (), null)))
    assert sorted(parts) == [10, 11, 12, 13]
    assert sum(map(len, parts.values())) == 400
    with_value = [number for number, part in parts.items() if not all(part.all_kinds()[:, 0] == LaneKind.NULL)]
    assert len(with_value) == 1


def test_a_refill_replaces_all_tables_of_joins_together(tmp_path: Path) -> None:
    records, files = held(), dict[str, Path]()
    for name in ("orders", "customers"):
        files[name] = tmp_path / f"{name}.jsonl"
        lines = [json.dumps(record.doc) + "\n" for record in records if record.table == name]
        files[name].write_text("".join(lines))
    with ps.open(sales(), tmp_path / "live") as live:
        live.put_many("orders", [{**doc, "customer": 1, "amount": 7} for doc in ORDERS[:60]])
        live.put("customers", {"id": 77, "both": 1, "to": 1, "city": "c0"})
    message = "side 'customer' of the join 'sold' is read from 'customers'; give 'customers' too"
    with pytest.raises(DefinitionError, match=message):
        backfill(sales(), tmp_path / "live", spark=InProcess(), refill=True, orders=files["orders"])
    backfill(sales(), tmp_path / "live", spark=InProcess(), refill=True, tables=files)
    with one_by_one(sales(), records) as engine:
        same(sales(), engine, tmp_path / "live")


JOINS = "spark.backfill_job.join_tasks:"
COLLECTED = "spark.backfill_job.contribution_collector:"
BUGS = [
    Bug("a condition value has two tasks", f"{JOINS}ConditionRanges.split", "(at >> np", "(at << _KEY >> np"),
    Bug("the pages of each range begin at 0", f"{JOINS}JoinRangeTask._joined", "own.begin(number)", "0"),
    Bug("rows are not filtered", f"{JOINS}_RangeJoin.run", "block, self._join.filter", "block, None"),
    Bug("rows of a view are lost", f"{JOINS}_RangeJoin.run", "if rows.i.size:", "if rows.i.size > 2:"),
    Bug("no condition value is above the limit", f"{JOINS}_change", "join.limit", "None"),
    Bug("every join is an inner one", f"{JOINS}_change", "How(join.how)", 'How("inner")'),
    Bug(
        "values above the limit are lost",
        f"{JOINS}_RangeJoin._write_limited",
        "self._write_rows(held_db(number))",
        "pass",
    ),
    Bug("null condition values are stored", f"{JOINS}_RangeJoin.run", "part if null is None else", "part if True else"),
    Bug(
        "emissions of rows are lost",
        f"{JOINS}_RangeJoin._write_sent",
        "self._write_rows(emissions_db(node.number))",
        "pass",
    ),
    Bug("the last rows are lost", f"{JOINS}_RangeJoin.run", "self._write_sent()\n    self._write_l", "self._write_l"),
    Bug("a side without a match is left out", f"{COLLECTED}put_shares", "if len(entries):", "if len(entries) > 1:"),
    Bug(
        "rows of a join are collected twice",
        f"{COLLECTED}ContributionCollector.fold_gathered",
        "gathered.pop(",
        "gathered.get(",
    ),
    Bug("what is held is lost", f"{COLLECTED}put_holds", "held_db(node.number)", "held_db(-1)"),
    Bug(
        "a join runs when one side is complete",
        "spark.backfill_job.source_levels:levels",
        "all(isinstance(one, Table) or one in done for",
        "any(isinstance(one, Table) or one in done for",
    ),
    Bug(
        "files are deleted too early",
        "spark.backfill_job.backfill_driver:_Backfill._still_read",
        "for level in left for",
        "for level in left[:1] for",
    ),
]


def check_all(folder: Path) -> None:
    """Check an app of each kind."""
    check(folder / "held", sales(), held())
    for app_of in APPS:
        check(folder / app_of.__name__, app_of(filtered=True), history(7, 40))


def test_without_a_bug_all_agree(tmp_path: Path) -> None:
    check_all(tmp_path)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - any error shows the bug
        check_all(tmp_path)
