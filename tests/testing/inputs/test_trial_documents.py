"""Documents like those of a sample: types, ranges, keys and shares are learnt.

Documents of a strategy keep their fields.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

import penstock as ps
from penstock.testing.inputs.trial_documents import DocumentProfile, TrialStream, drawn, makers, read_sample

SAMPLE = [
    {"id": key, "name": name, "n": n, "at": f"2024-01-0{n}T00:00:00Z", "in": {"city": city}, "tags": ["a"] * n}
    for key, name, n, city in (
        (1, "Sue", 3, "Oslo"),
        (1, "Joe", 5, "Bergen"),
        (1, "Sue", 4, "Oslo"),
        (2, "Bob", 9, None),
    )
]


def a_table(**more: Any) -> ps.Table:
    return ps.App("shop").table("users", key="id", **more)


def made(table: ps.Table, docs: Any, number: int = 400) -> list[ps.Record]:
    stream, choose = TrialStream([DocumentProfile.of(table, docs)]), Random(1)
    return [stream.record(choose) for _ in range(number)]


def test_what_is_made_is_like_the_sample() -> None:
    records = made(a_table(ts="at"), SAMPLE)
    docs = [r.doc for r in records if isinstance(r.doc, dict)]
    assert {d["name"] for d in docs} == {"Sue", "Joe", "Bob"}
    assert {type(d["n"]) for d in docs} == {int}
    assert {d["n"] for d in docs} == set(range(3, 10)), "numbers between those of the sample come too"
    assert {d["in"]["city"] for d in docs} == {"Oslo", "Bergen", None}
    assert all(d["tags"] == ["a"] * len(d["tags"]) for d in docs)
    assert all(set(d) == set(SAMPLE[0]) for d in docs)


def test_keys_come_as_often_as_in_the_sample() -> None:
    keys = [r.key for r in made(a_table(ts="at"), SAMPLE)]
    assert set(keys) == {1, 2}
    assert keys.count(1) > 2 * keys.count(2)


def test_moments_are_new_equal_and_late() -> None:
    moments = [r.doc["at"] for r in made(a_table(ts="at"), SAMPLE) if isinstance(r.doc, dict)]
    assert moments != sorted(moments)
    assert len(set(moments)) < len(moments)
    assert min(moments) < "2024-01-03T00:00:00Z" < max(moments)
    numbers = [r.doc["n"] for r in made(a_table(ts="n"), SAMPLE) if isinstance(r.doc, dict)]
    assert max(numbers) > 300


def test_some_are_deletions_of_their_keys() -> None:
    gone = [r for r in made(a_table(ts="at"), SAMPLE) if r.doc is None]
    assert 20 < len(gone) < 100
    assert {r.key for r in gone} == {1, 2}
    assert all(r.ts is not None for r in gone)


def test_a_ts_beside_documents_stands_beside_them() -> None:
    records = made(a_table(ts="@kafka"), SAMPLE)
    assert all(isinstance(r.ts, int) for r in records)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_samples_are_files_of_any_format_that_can_be_loaded(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"sample.{suffix}"
    if suffix == "csv":
        path.write_text("id,name\n1,Sue\n2,Joe\n")
    else:
        path.write_text("\n".join(json.dumps({"id": i, "name": n}) for i, n in ((1, "Sue"), (2, "Joe"))) + "\nbroken\n")
    assert read_sample(str(path), "users") == [{"id": 1, "name": "Sue"}, {"id": 2, "name": "Joe"}]


def test_a_sample_is_found_beside_the_app(tmp_path: Path) -> None:
    (tmp_path / "sample.jsonl").write_text('{"id": 1, "name": "Sue"}\n')
    app = ps.App("shop")
    app.table("users", key="id", sample="sample.jsonl")
    (learnt,) = makers(app, folder=str(tmp_path)).profiles()
    assert learnt.docs == ({"id": 1, "name": "Sue"},)


def test_a_missing_sample_is_named() -> None:
    app = ps.App("shop")
    app.table("users", key="id", sample="no_such_file.jsonl")
    with pytest.raises(ps.PenstockError, match=r"no_such_file\.jsonl"):
        makers(app).profiles()


def test_views_by_fields_alone_say_which_fields_there_are() -> None:
    app = ps.App("shop")
    users = app.table("users", key=("id", "org.name"), ts="at")
    users.view("total", key="city", value="amount", where=ps.field("paid"), reduce=ps.sum())
    (learnt,) = makers(app).profiles()
    assert {"id", "org", "at", "city", "amount", "paid"} <= set(learnt.docs[0])


def test_a_function_without_a_sample_is_refused_by_name() -> None:
    app = ps.App("shop")
    app.table("users", key="id").view("initials", reduce=ps.count())(lambda doc: doc["name"])
    with pytest.raises(ps.DefinitionError, match=r"table 'users' has no sample=.*view 'initials'"):
        makers(app).profiles()


def test_documents_without_their_key_are_no_sample() -> None:
    with pytest.raises(ps.DefinitionError, match="no document to learn from"):
        DocumentProfile.of(a_table(), [{"name": "Sue"}])


def test_a_strategy_is_drawn_the_same_each_time_and_its_fields_are_its_own() -> None:
    user = st.fixed_dictionaries({"id": st.integers(0, 9), "name": st.sampled_from(["Sue", "Joe"]), "n": st.just(7)})
    assert drawn(user, 20) == drawn(user, 20)
    table = a_table()
    (learnt,) = makers(table.app, docs=user).profiles()
    stream, choose = TrialStream([learnt]), Random(0)
    docs = [record.doc for record in (stream.record(choose) for _ in range(100)) if isinstance(record.doc, dict)]
    assert all(doc["n"] == 7 and doc["name"] in ("Sue", "Joe") for doc in docs)


def test_a_function_of_a_random_makes_documents() -> None:
    table = a_table()
    (learnt,) = makers(table.app, docs={"users": lambda choose: {"id": choose.randrange(3), "x": 1}}).profiles()
    assert {doc["id"] for doc in learnt.docs} == {0, 1, 2}


def test_documents_for_several_tables_are_given_by_name() -> None:
    app = ps.App("shop")
    app.table("users", key="id")
    app.table("orders", key="id")
    with pytest.raises(ps.DefinitionError, match="has the tables users, orders"):
        makers(app, docs=[{"id": 1}])
    with pytest.raises(ps.UnknownName):
        makers(app, docs={"user": [{"id": 1}]})
