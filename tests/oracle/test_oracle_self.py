"""Test the oracle itself against values computed by hand or by the standard library."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.model import Counts, Model, Record
from tests.oracle.reducers import Count, Group, Histogram, Mean, Stddev, Sum, Variance
from tests.oracle.tables import Table
from tests.oracle.values import Refused, from_line, group_of, identity, instant, key_of, normalise, rank
from tests.oracle.views import Is, View, Where, begins, recompute, select

FINITE = st.floats(-1e100, 1e100, allow_nan=False)


def shown(model: Model, view: str) -> dict[Any, Any]:
    return {row.group: row.result for row in model.rows[view].values()}


def test_values_stand_in_the_order_of_the_kinds():
    ordered = [None, False, True, -math.inf, -1, 0.5, Decimal("0.6"), 1, 10**40, math.inf, math.nan]
    ordered += ["", "a", "a\0", "aa", "b", "é", "\U0001f600", b"", b"\0", (), (None,), ("a",), ("a", 1), ("b",), {}]
    ranks = [rank(v) for v in ordered]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


def test_true_and_1_are_two_groups_and_1_and_its_float_one():
    assert rank(True) != rank(1) == rank(1.0)
    assert rank(-0.0) == rank(0)
    assert len({identity(v) for v in (True, 1, 1.0, Decimal(1), "1", b"1", [1], (1,))}) == 8
    assert identity(math.nan) == identity(-math.nan)
    assert type(group_of(1e300)) is int
    assert group_of([1.0, [2]]) == (1, (2,))


@pytest.mark.parametrize("value", [{}, Decimal(1), {1}, object(), (1, {}), "\ud800"])
def test_what_is_no_group(value):
    with pytest.raises(Refused):
        group_of(value)


@pytest.mark.parametrize("value", [None, {}, Decimal(1), "x" * 70_000, ("x" * 40_000, "y" * 40_000)])
def test_what_is_no_document_key(value):
    with pytest.raises(Refused):
        key_of(value)


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1}}, Decimal("nan"), Decimal("1E+7000"), "\ud800", [object()]])
def test_what_is_no_document_value(value):
    with pytest.raises(Refused):
        normalise(value)


@pytest.mark.parametrize("line", ["", "{", '{"a": NaN}', '{"a": 1} {"b": 2}', b"\xff{}"])
def test_what_is_no_json_line(line):
    with pytest.raises(Refused):
        from_line(line)


def test_instants_compare_by_the_moment_they_name():
    assert instant("1970-01-01T00:00:00Z") == 0
    assert instant("1970-01-01T01:00:00+01:00") == 0
    assert instant("1969-12-31T23:59:59.5-00:00") == Fraction(-1, 2)
    assert instant("2016-12-31T23:59:60Z") == instant("2017-01-01T00:00:00z")
    assert instant("2017-01-01T00:59:60+01:00") == instant("2017-01-01T00:00:00Z")
    for wrong in (
        "2020-02-30T00:00:00Z",
        "2020-01-01T00:00:60Z",
        "2020-01-01T00:00:00",
        "2020-01-01",
        "2020-01-01T24:00:00Z",
        "yesterday",
    ):
        with pytest.raises(Refused):
            instant(wrong)


@given(st.lists(FINITE, min_size=1))
def test_a_sum_of_floats_is_fsum(numbers):
    assert Sum().result([*numbers, None]) == math.fsum(numbers)


@given(st.lists(st.fractions(-1000, 1000, max_denominator=64).map(float), min_size=2))
def test_moments_are_those_of_the_standard_library(numbers):
    exact = [Fraction(v) for v in numbers]
    assert Mean().result(numbers) == float(statistics.mean(exact))
    assert Variance().result(numbers) == float(statistics.variance(exact))
    assert Variance(ddof=0).result(numbers) == float(statistics.pvariance(exact))
    assert Stddev().result(numbers) == pytest.approx(math.sqrt(statistics.variance(exact)), rel=1e-15)


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([2**63, 2**63], 2**64),
        ([1, Decimal("3.30")], Decimal("4.3")),
        ([Decimal("1E+2"), Decimal("0.0")], Decimal("100")),
        ([1, Decimal("0.5"), 0.25], 1.75),
        ([1e308, 1e308], math.inf),
        ([1e308, 1e308, -1e308, -1e308], 0.0),
        ([math.inf, 1], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([1, math.nan], math.nan),
        ([None], None),
        ([], None),
    ],
)
def test_sums(numbers, wanted):
    assert identity(Sum().result(numbers)) == identity(wanted)


def test_decimal_moments_have_28_digits():
    thirds = [Decimal(1), Decimal(0), Decimal(0)]
    assert str(Mean().result(thirds)) == "0." + "3" * 28
    assert str(Stddev(ddof=0).result([Decimal(1), 3])) == "1"
    assert str(Stddev().result([Decimal(1), Decimal(2)])) == "0.7071067811865475244008443621"
    assert Mean().result([1, 2]) == 1.5
    assert Variance().result([1]) is None
    assert math.isnan(Variance().result([1, math.inf]))


def test_a_histogram_is_closed_below_and_open_at_both_ends():
    bins = Histogram(edges=(0, 10)).result([-math.inf, -1, 0, 9.99, Decimal(10), 10**30, None])
    assert bins == [2, 2, 2]
    assert Histogram(edges=(0, 10)).result([None]) == [0, 0, 0]


@pytest.mark.parametrize("wrong", [True, "1", b"1", [1], {}])
def test_a_number_is_judged_by_its_type(wrong):
    with pytest.raises(Refused):
        Sum("a").read({"a": wrong})
    assert Count("a").read({"a": wrong}) == wrong


def test_a_condition_is_two_valued():
    doc = {"n": 1, "t": "x", "yes": True, "z": None, "d": Decimal("1.0")}
    assert Is("n", ">", 0).holds(doc)
    assert Is("d", "==", 1).holds(doc)
    assert Is("yes").holds(doc)
    assert not Is("n").holds(doc)
    assert not Is("n", "<", "a").holds(doc)
    assert Is("n", "!=", "a").holds(doc)
    assert not Is("z", "!=", 1).holds(doc)
    assert not Is("yes", "==", 1).holds(doc)
    assert Where("not", (Is("z", ">", 1),)).holds(doc)
    assert Where("and", (Is("n", ">=", 1), Is("t", "<", "y"))).holds(doc)
    assert not Where("or", (Is("n", ">", 1), Is("t", ">", "x"))).holds(doc)


def test_reading_a_range():
    rows = [(g, None) for g in (None, True, 1, "a", "ab", "b", ("a",), ("a", 1), ("ab",))]
    assert [g for g, _ in select(rows, start="a", stop=("a", 1))] == ["a", "ab", "b", ("a",)]
    assert [g for g, _ in select(rows, prefix="a", reverse=True)] == ["ab", "a"]
    assert [g for g, _ in select(rows, prefix=("a",))] == [("a",), ("a", 1)]
    assert [g for g, _ in select(rows, stop=1, reverse=True, limit=1)] == [True]
    assert begins((1.0, 2), (1,))
    assert not begins((True, 2), (1,))


USERS = Table("users", "id", ts="ts")
PATCHED = Table("patched", "id", ts="ts", merge="patch")
PLAIN = Table("plain", "id")
PATCHED_PLAIN = Table("patched_plain", "id", merge="patch")
NAMES = View("names", "users", Count(), key="name")
AMOUNTS = View("amounts", "plain", {"n": Count(), "total": Sum("amount")}, key="name")
LENGTHS = View("lengths", "names", Sum(), fn=lambda row: [(len(row.key), row.value)])


def model() -> Model:
    return Model([USERS, PATCHED, PLAIN, PATCHED_PLAIN], [NAMES, AMOUNTS, LENGTHS])


def doc_of(model: Model, table: str, key: Any = 1) -> Any:
    return model.living(table).get(rank(key), (key, None))[1]


def test_the_greater_version_wins_and_a_tombstone_stays():
    m = model()
    assert m.put("users", {"id": 1, "name": "Sue", "ts": 2}) == Counts(applied=1)
    assert m.put("users", {"id": 1, "name": "Joe", "ts": 1}) == Counts(late=1)
    assert m.put("users", {"id": 1, "name": "Sue", "ts": 2}) == Counts(equal=1)
    assert m.delete("users", 1, ts=1) == Counts(late=1)
    assert m.delete("users", 1, ts=4) == Counts(applied=1)
    assert m.put("users", {"id": 1, "name": "Sue", "ts": 3}) == Counts(late=1)
    assert m.put("users", {"id": 1, "name": "Bob", "ts": 4}) == Counts(applied=1)
    assert m.delete("users", 1) == Counts(applied=1)
    assert m.put("users", {"id": 1, "name": "Sue", "ts": 3}) == Counts(late=1)
    assert shown(m, "names") == {}


def test_a_table_without_ts_keeps_no_tombstone():
    m = model()
    m.put("plain", {"id": 1})
    assert m.delete("plain", 1) == Counts(applied=1)
    assert m.delete("plain", 1) == Counts(equal=1)
    assert m.tables["plain"].entries == {}


def test_patch_merges_field_by_field():
    m = model()
    m.put("patched", {"id": 1, "a": 1, "b": 1, "ts": 5})
    assert m.put("patched", {"id": 1, "a": 2, "c": 2, "ts": 3}) == Counts(applied=1)
    assert doc_of(m, "patched") == {"id": 1, "a": 1, "b": 1, "c": 2, "ts": 5}
    assert m.delete("patched", 1, ts=4) == Counts(applied=1)
    assert doc_of(m, "patched") == {"id": 1, "a": 1, "b": 1, "ts": 5}
    assert m.put("patched", {"id": 1, "d": 1, "ts": 4}) == Counts(applied=1), "the later arrival is above the floor"
    assert m.put("patched", {"id": 1, "e": 1, "ts": 3}) == Counts(late=1)
    assert m.delete("patched", 1, ts=3) == Counts(late=1)
    assert m.delete("patched", 1, ts=4.5) == Counts(applied=1), "the floor is content"
    assert m.put("patched", {"id": 1, "a": 1, "b": 1, "ts": 5}) == Counts(equal=1)
    assert m.put("patched", {"id": 1, "a": None, "ts": 6}) == Counts(applied=1)
    assert doc_of(m, "patched") == {"id": 1, "a": None, "b": 1, "ts": 6}


def test_patch_without_ts_starts_anew_after_a_delete():
    m = model()
    m.put("patched_plain", {"id": 1, "a": 1})
    m.put("patched_plain", {"id": 1, "b": 1})
    assert doc_of(m, "patched_plain") == {"id": 1, "a": 1, "b": 1}
    m.delete("patched_plain", 1)
    m.put("patched_plain", {"id": 1, "b": 2})
    assert doc_of(m, "patched_plain") == {"id": 1, "b": 2}


def test_the_first_accepted_record_decides_the_kind_of_ts():
    m = model()
    assert m.put("users", {"id": 1, "ts": "soon"}) == Counts(rejected=1)
    assert m.put("users", {"id": 1, "ts": "2020-01-01T00:00:00Z"}) == Counts(applied=1)
    assert m.put("users", {"id": 1, "ts": 1}) == Counts(rejected=1)
    assert m.put("users", {"id": 1}) == Counts(rejected=1)
    assert m.put("users", {"id": 1, "n": 1, "ts": "2020-01-01T01:00:00+02:00"}) == Counts(late=1)
    assert m.delete("users", 1, ts="2020-01-01T01:00:00+01:00") == Counts(applied=1), "a tie: the later arrival wins"


def test_a_ts_beside_the_document_is_the_brokers():
    m = Model([Table("heard", "id", ts="@kafka"), USERS], [])
    assert m.put("heard", {"id": 1}) == Counts(rejected=1)
    assert m.put("heard", {"id": 1}, ts=2) == Counts(applied=1)
    assert m.put("heard", {"id": 1, "n": 1, "ts": 3}, ts=1) == Counts(late=1)
    assert m.put("users", {"id": 1, "ts": 3}, ts=1) == Counts(applied=1)
    assert m.put("users", {"id": 1, "n": 1, "ts": 2}, ts=9) == Counts(late=1)


def test_a_redelivery_is_told_by_its_offset():
    m = model()
    records = [Record("users", 1, {"id": 1, "name": n, "ts": 1}, None, i) for i, n in enumerate(["Sue", "Joe"])]
    assert m.ingest(records, "file", 2) == Counts(applied=2)
    assert m.ingest(records, "file", 2) == Counts(late=2)
    assert m.ingest(records, "another", 2) == Counts(applied=2)
    assert shown(m, "names") == {"Joe": 1}


def broken_batch(m: Model) -> None:
    with m.batch() as batch:
        batch.put("users", {"id": 1, "name": "Joe", "ts": 2})
        raise ZeroDivisionError


def test_a_batch_is_all_or_nothing_and_coalesces():
    m = model()
    m.put("users", {"id": 1, "name": "Sue", "ts": 1})
    with pytest.raises(ZeroDivisionError):
        broken_batch(m)
    assert shown(m, "names") == {"Sue": 1}
    with m.batch() as batch:
        batch.put("users", {"id": 1, "name": ["a", {}], "ts": 2})
        batch.put("users", {"id": 1, "name": "Bob", "ts": 3})
    assert batch.counts == Counts(applied=2)
    assert shown(m, "names") == {"Bob": 1}
    assert shown(m, "lengths") == {3: 1}


def test_a_held_document_keeps_what_its_view_was_told():
    m = model()
    m.put("plain", {"id": 1, "name": "a", "amount": 5})
    assert m.put("plain", {"id": 1, "name": "b", "amount": "much"}) == Counts(applied=1, held=1)
    assert shown(m, "amounts") == {"a": {"n": 1, "total": 5}}
    rows, held = recompute(AMOUNTS, m.living("plain"))
    assert (rows, held) == ({}, {rank(1)})
    assert m.put("plain", {"id": 1, "name": "b", "amount": 7}) == Counts(applied=1)
    assert shown(m, "amounts") == {"b": {"n": 1, "total": 7}}
    m.put("plain", {"id": 1, "name": "b", "amount": True})
    assert m.delete("plain", 1) == Counts(applied=1)
    assert shown(m, "amounts") == {}
    assert m.told["amounts"].held == set()


def test_a_reducer_error_holds_a_group_at_its_last_good_result():
    class Strict:
        zero = 0

        def lift(self, value: Any) -> Any:
            return 1 // value

        def merge(self, a: Any, b: Any) -> Any:
            return a + b

    view = View("strict", "plain", Group("n", Strict()), key="g")
    m = Model([PLAIN], [view])
    m.put("plain", {"id": 1, "g": "a", "n": 1})
    m.put("plain", {"id": 2, "g": "a", "n": 0})
    row = m.rows["strict"][rank("a")]
    assert (row.result, row.held) == (1, True)
    m.delete("plain", 2)
    row = m.rows["strict"][rank("a")]
    assert (row.result, row.held) == (1, False)


def test_rows_of_a_field_view():
    view = View("v", "plain", Sum("amount"), key=("a.b", "c"), where=Is("paid"))
    m = Model([PLAIN], [view])
    m.put("plain", {"id": 1, "a": {"b": 1.0}, "amount": 2, "paid": True})
    m.put("plain", {"id": 2, "a": 7, "c": [1], "paid": True})
    m.put("plain", {"id": 3, "amount": "not kept, so not judged", "paid": 1})
    assert shown(m, "v") == {(1, None): 2, (None, (1,)): None}
    assert m.rollup("v", 1) == [((None,), None), ((1,), 2)]


def test_a_view_needs_a_field_where_it_reads_a_document():
    with pytest.raises(Refused):
        Model([PLAIN], [View("v", "plain", Sum(), key="a")])
