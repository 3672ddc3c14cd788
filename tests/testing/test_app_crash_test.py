"""The crash test of a user's app: verdicts, remembered seeds, and the views that are chained to a wrong view."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.testing import Law, crashtest
from penstock.testing.app_crash_test import State
from penstock.testing.seeds.seed_search import SeedFile, Totals
from tests.testing.planted import BUGS, planted

DOCS = [{"id": i, "name": name, "v": i} for i, name in enumerate(("Sue", "Joe", "Bob", "Sue", "Al"))]


def an_app() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")
    names = users.view("namecount", key="name", reduce=ps.count())
    names.view("sizes", key="value", reduce=ps.count())
    users.view("total", key=(), value="v", reduce=ps.sum())
    return app


def bug_of(name: str) -> Any:
    (found,) = (bug for bug in BUGS if bug.name == name)
    return found


def test_a_sound_app_passes_and_says_what_was_done() -> None:
    report = crashtest(an_app(), DOCS, seeds=12)
    assert report.ok
    lines = str(report).splitlines()
    assert lines[:3] == ["namecount  ok", "sizes      ok", "total      ok"]
    assert lines[3].startswith("12 seeds in ")
    assert "faults struck at" in lines[3]


def an_app_with_a_join() -> ps.App:
    app = ps.App("shop")
    orders, users = app.table("orders", key="id"), app.table("users", key="id")
    sold = app.join("sold", order=orders, user=users, on={"order.user": "user.id"})
    names = sold.view("sums", key="user.name", value="order.v", reduce=ps.sum())
    names.view("sizes", key="value", reduce=ps.count())
    orders.view("mine", key="user", where=ps.field("v") >= 0, reduce=ps.count())
    return app


ORDERS = [{"id": i, "user": i % 5 if i else {"a": 1}, "v": i} for i in range(8)]  # the join holds the first


def test_views_on_a_join_are_tested() -> None:
    report = crashtest(an_app_with_a_join(), {"users": DOCS, "orders": ORDERS}, seeds=12)
    assert report.ok, str(report)
    assert [v.name for v in report.verdicts] == ["sums", "sizes", "mine"]


def test_a_law_that_a_function_view_on_a_join_breaks_is_found() -> None:
    app, seen = an_app_with_a_join(), list[Any]()
    sold = app.joins()[0]

    @sold.view(reduce=ps.count())
    def numbered(row: dict[str, Any]) -> Iterator[Any]:
        seen.append(row)
        yield len(seen)

    report = crashtest(app, {"users": DOCS, "orders": ORDERS}, seeds=3)
    breach = {v.name: v.breach for v in report.verdicts}["numbered"]
    assert breach is not None
    assert breach.law is Law.HIDDEN


def test_a_bug_is_found_told_and_remembered(tmp_path: Path) -> None:
    file = tmp_path / "crashtest.seeds"
    with planted(bug_of("a view of a view is not told of groups that go")):
        report = crashtest(an_app(), DOCS, seeds=60, remembered=str(file))
        verdict = {v.name: v for v in report.verdicts}["sizes"]
        assert verdict.state is State.WRONG
        assert {v.name: v.state for v in report.verdicts}["total"] is State.OK
        assert "what happened:" in verdict.why
        assert f"replay with: penstock crashtest --seed {verdict.seed}" in str(report)
        assert SeedFile(str(file)).seeds() == (verdict.seed,)
        again = crashtest(an_app(), DOCS, seeds=1, first=10**6, remembered=str(file))
        assert [v.seed for v in again.verdicts if v.name == "sizes"] == [verdict.seed], "it comes first"
        alone = crashtest(an_app(), DOCS, seed=verdict.seed)
        assert not alone.ok
        assert alone.totals.seeds == 1
    assert crashtest(an_app(), DOCS, seed=verdict.seed).ok


def test_what_is_wrong_with_the_store_is_no_views_fault() -> None:
    with planted(bug_of("the offset is not committed with the data")):
        report = crashtest(an_app(), DOCS, seeds=60)
    first = report.verdicts[0]
    assert (first.name, first.state) == ("the store", State.WRONG)
    assert "lost: source" in first.why


def test_views_on_a_view_that_is_unsound_are_not_tried() -> None:
    app = ps.App("shop")
    users = app.table("users", key="id")
    seen: list[Any] = []

    @users.view(reduce=ps.count())
    def before(user: Any) -> Iterator[Any]:
        yield seen[-1] if seen else None
        seen.append(user["name"])

    before.view("on_it", key="value", reduce=ps.count())
    users.view("beside", key="name", reduce=ps.count())
    report = crashtest(app, DOCS, seeds=8)
    states = {v.name: v for v in report.verdicts}
    assert [v.state for v in states.values()] == [State.WRONG, State.UNTRIED, State.OK]
    breach = states["before"].breach
    assert breach is not None
    assert breach.law is Law.HIDDEN
    assert str(states["on_it"]) == "not tried  it is on 'before'"
    assert report.totals.seeds == 8


def test_a_map_that_laws_cannot_see_through_is_found_by_seeds() -> None:
    """The map's emissions depend on the number of its calls, but only after many calls."""
    app = ps.App("shop")
    users = app.table("users", key="id")
    calls = {"n": 0}

    class Late:
        def __call__(self, user: Any) -> list[Any]:
            calls["n"] += 1
            return [user["name"] if calls["n"] < 900 else calls["n"] % 2]

    users.view("late", reduce=ps.count())(Late())
    report = crashtest(app, DOCS, seeds=150)
    assert not report.ok


def test_a_budget_ends_it() -> None:
    ticks = iter(range(1000))
    report = crashtest(an_app(), DOCS, budget=20, clock=lambda: float(next(ticks)))
    assert report.ok
    assert 1 < report.totals.seeds < 20


def test_progress_is_told() -> None:
    counts: list[int] = []

    def progress(totals: Totals) -> None:
        counts.append(totals.seeds)

    crashtest(an_app(), DOCS, seeds=4, progress=progress)
    assert counts == [1, 2, 3, 4]


def test_an_app_without_views_is_tried_for_its_tables() -> None:
    app = ps.App("shop")
    app.table("users", key="id")
    assert crashtest(app, DOCS, seeds=3).totals.seeds == 3


def test_a_wrong_table_is_named() -> None:
    with pytest.raises(ps.UnknownName, match="user"):
        crashtest(an_app(), {"user": DOCS}, seeds=1)


def test_a_map_with_a_memo_is_sound_though_its_code_is_another_at_each_opening() -> None:
    app = ps.App("shop")
    users = app.table("users", key="id")
    memo: dict[str, str] = {}

    @users.view(reduce=ps.count())
    def initials(user: Any) -> Iterator[Any]:
        yield memo.setdefault(user["name"], user["name"][0])

    initials.view("on_it", key="value", reduce=ps.count())
    report = crashtest(app, DOCS, seeds=25)
    assert report.ok, str(report)
