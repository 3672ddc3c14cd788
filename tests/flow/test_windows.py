"""Views with windows: groups by time, closed windows, and windows of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.testing import TestEngine


def app_of(**more: Any) -> ps.App:
    app = ps.App("web")
    searches = app.stream("searches", ts="at", lateness="2s", **more)
    searches.view("counts", key=(ps.window("at", "10s"), "q"), reduce=ps.count())
    return app


def closed(engine: TestEngine, view: str = "counts") -> list[tuple[Any, Any, Any]]:
    return [(change.group, change.old, change.new) for change in engine.engine.changes(view, final=True)]


def test_a_window_closes_once_and_a_late_record_corrects_it() -> None:
    with TestEngine(app_of()) as engine:
        engine.put("searches", {"at": 5, "q": "a"}, {"at": 9.5, "q": "b"}, {"at": 11, "q": "a"})
        assert closed(engine) == []
        engine.put("searches", {"at": 12, "q": "a"})
        assert closed(engine) == [((0, "a"), ps.ABSENT, 1), ((0, "b"), ps.ABSENT, 1)]
        engine.put("searches", {"at": 3, "q": "a"}, {"at": 3, "q": "c"})
        assert closed(engine)[2:] == [((0, "a"), 1, 2), ((0, "c"), ps.ABSENT, 1)]
        with engine.engine.snapshot() as snap:
            rows = [(row.key, row.final) for row in snap.view("counts").items()]
            assert rows == [((0, "a"), True), ((0, "b"), True), ((0, "c"), True), ((10, "a"), False)]
            assert [row.key for row in snap.view("counts").items(final=True, limit=1)] == [(0, "a")]
            assert repr(snap.view("counts").row((0, "a"))) == "Row(key=(0, 'a'), value=2, final=True)"


def test_the_clock_closes_the_last_windows_of_a_quiet_stream() -> None:
    with TestEngine(app_of(idle="30s"), now=100) as engine:
        engine.put("searches", {"at": 97, "q": "a"})
        engine.wait("29s")
        assert closed(engine) == []
        engine.wait("1s")
        assert closed(engine) == [((90, "a"), ps.ABSENT, 1)]


def test_a_store_that_is_opened_again_keeps_its_windows(store_path: Path) -> None:
    with ps.open(app_of(), store_path) as engine:
        engine.put_many("searches", [{"at": 5, "q": "a"}, {"at": 13, "q": "a"}])
        position = engine.status()["position"]
    with ps.open(app_of(), store_path) as engine:
        engine.put("searches", {"at": 25, "q": "a"})
        changes = [change.group for change in engine.changes("counts", since=position, final=True)]
        assert changes == [(10, "a")]
    with ps.open(app_of(), store_path, readonly=True) as reader, reader.snapshot() as snap:
        assert [row.final for row in snap.view("counts").items()] == [True, True, False]


def test_windows_that_overlap_take_a_record_several_times() -> None:
    app = app_of()
    app.stream_of("searches").view("hops", key=ps.window("at", "10s", every="5s", offset="1s"), reduce=ps.sum("n"))
    with TestEngine(app) as engine:
        engine.put("searches", {"at": 7, "q": "a", "n": 3}, {"at": 10, "q": "a", "n": 4})
        assert engine.view("hops") == {1: 7, 6: 7}


def test_a_document_of_a_table_moves_between_windows() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="v")
    orders.view("days", key=(ps.window("at", "1d"), "land"), where="paid", value="sum", reduce={"total": ps.sum()})
    with TestEngine(app) as engine:
        order = {"id": 1, "v": 1, "at": "2026-01-31T23:30:00-02:00", "land": "NO", "paid": True, "sum": 7}
        engine.put("orders", order, {**order, "id": 2, "at": "2026-01-31T10:00:00Z"}, {**order, "id": 3, "paid": False})
        january, february = ("2026-01-31T00:00:00Z", "NO"), ("2026-02-01T00:00:00Z", "NO")
        assert engine.view("days") == {january: {"total": 7}, february: {"total": 7}}
        engine.put("orders", {**order, "v": 2, "at": "2026-01-31T11:00:00.5Z"})
        assert engine.view("days") == {january: {"total": 14}}
        engine.delete("orders", 2)
        assert engine.view("days") == {january: {"total": 7}}
        assert engine.engine.check().ok
        with engine.engine.snapshot() as snap:
            assert [row.final for row in snap.view("days").items()] == [False]


def test_starts_shorter_than_a_second_have_one_form() -> None:
    app = ps.App("web")
    app.stream("s", ts="at").view("v", key=ps.window("at", "250ms"), reduce=ps.count())
    with TestEngine(app) as engine:
        engine.put("s", {"at": "2026-01-31T10:00:00.3Z"}, {"at": "2026-01-31T10:00:00Z"})
        assert engine.view("v") == {"2026-01-31T10:00:00.000000Z": 1, "2026-01-31T10:00:00.250000Z": 1}


def test_milliseconds_and_times_without_a_good_field() -> None:
    app = ps.App("web")
    app.stream("s", ts="at", unit="ms").view("v", key=ps.window("seen", "1s"), reduce=ps.count())
    with TestEngine(app) as engine:
        engine.put("s", {"at": 1, "seen": 2500}, {"at": 2, "seen": 999.5}, {"at": 3}, {"at": 4, "seen": True})
        assert engine.view("v", held=True) == {None: 1, 0: 1, 2000: 1}
        [entry] = engine.engine.quarantine("document")
        assert entry.reason == "ValueError: its seen is True (bool), which is no time"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda s: s.view("v", key=("q", ps.window("at", "1s")), reduce=ps.count()),
            "has a window that is not its first",
        ),
        (lambda s: ps.window("at", "1s", every="2s"), "has size 1s and every=2s; write a size above 0"),
        (lambda s: ps.window("at", "0s"), "has size 0s and every=0s"),
        (lambda s: ps.window("at", "1d", every="1s"), "at most 10,000 windows for one time"),
        (
            lambda s: s.view("a", key="q", reduce=ps.count()).view("v", key=ps.window("key", "1s"), reduce=ps.count()),
            "has a window, and is on 'a', whose rows have no times of their own",
        ),
    ],
)
def test_a_wrong_window_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ps.DefinitionError, match=message.replace("(", r"\(")):
        make(ps.App("web").stream("s", ts="at"))


def test_a_view_without_windows_is_never_final() -> None:
    app = app_of()
    app.stream_of("searches").view("plain", key="q", reduce=ps.count())
    with TestEngine(app) as engine, engine.engine.snapshot() as snap:
        for read in (
            lambda: list(engine.engine.changes("plain", final=True)),
            lambda: snap.view("plain").items(final=True),
        ):
            with pytest.raises(ps.DefinitionError, match="view 'plain' has no window"):
                read()
