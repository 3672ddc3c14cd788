"""Streams through the public API: records, views, held records, refusals, changed definitions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.testing import TestEngine, crashtest
from tests.waiting import PATIENCE


def app_of(*, by: str = "q", letters: Callable[[Any], Any] | None = None, **more: Any) -> ps.App:
    app = ps.App("web")
    searches = app.stream("searches", ts="at", **more)
    searches.view("counts", key=by, reduce=ps.count())
    if letters is not None:
        searches.view("letters", reduce=ps.count())(letters)
    return app


def first(record: Any) -> Any:
    return [record["q"][0]]


def any_first(record: Any) -> Any:
    return [str(record["q"])[0]]


def test_equal_records_count_twice_and_a_view_reads_like_one_on_a_table() -> None:
    with TestEngine(app_of()) as engine:
        counts = engine.put("searches", {"at": 1, "q": "cats"}, {"at": 1, "q": "cats"}, {"at": 2, "q": "dogs"})
        assert str(counts) == "3 applied"
        assert engine.view("counts") == {"cats": 2, "dogs": 1}
        assert engine.engine.status()["streams"]["searches"]["records"] == 3


def test_a_record_without_a_good_ts_is_rejected_with_the_reason() -> None:
    with ps.open(app_of(), None) as engine:
        docs = [{"q": "a"}, {"at": float("1e30"), "q": "a"}, {"at": "no", "q": "a"}, {"at": 5, "q": "a"}]
        counts = engine.put_many("searches", docs)
        assert isinstance(counts, ps.Counts)
        assert (counts.applied, counts.rejected) == (1, 3)
        reasons = [entry.reason for entry in engine.quarantine("record")]
        assert reasons[0] == "it has no ts"
        assert "290,000 years from 1970; is unit='s' its unit?" in " ".join(reasons)
        assert engine.retry().left == 3


def test_a_held_record_waits_with_its_line_until_the_view_takes_it(store_path: Path) -> None:
    with ps.open(app_of(letters=first), store_path) as engine:
        counts = engine.put_many("searches", [{"at": 1, "q": "cats"}, {"at": 2, "q": 7}, {"at": 3, "q": 8}])
        assert str(counts) == "3 applied; 2 held"
        held = list(engine.quarantine("document", view="letters"))
        assert [entry.document for entry in held] == [{"at": 2, "q": 7}, {"at": 3, "q": 8}]
        assert engine.drop(held[0].id).dropped == 1
        assert engine.retry(view="letters").left == 1
        assert engine.check().ok
    pinned = app_of()
    pinned.stream_of("searches").view("letters", reduce=ps.count(), version="2")(any_first)
    with pytest.raises(ps.DefinitionError, match=r"'letters' changed .* which stores no records to build it from"):
        ps.open(pinned, store_path)


def test_a_released_record_leaves_no_line() -> None:
    good = False

    def letters(record: Any) -> Any:
        return [record["q"][0]] if good or isinstance(record["q"], str) else record["q"].nothing

    with ps.open(app_of(letters=letters), None) as engine:
        engine.put("searches", {"at": 1, "q": [5]})
        good = True
        assert engine.retry(view="letters").released == 1
        assert engine.status()["views"]["letters"]["held"] == 0
        with engine.snapshot() as snap:
            assert dict(snap.view("letters").items()) == {5: 1}
            assert snap.reader().count("log:1") == 0


def test_a_stream_takes_no_delete_and_no_repost() -> None:
    wrong = "'searches' is a stream, and a stream has no documents; put the correction"
    with ps.open(app_of(), None) as engine:
        for refused in (
            lambda: engine.delete("searches", 7),
            lambda: engine.repost("searches", {"at": 1}),
            lambda: engine.snapshot().table("searches"),
        ):
            with pytest.raises(ps.DefinitionError, match=wrong):
                refused()
        deletion = [ps.Record("searches", 7, None, offset=0)]
        assert engine.ingest(deletion, "file:a", 1).rejected == 1
        [entry] = engine.quarantine("record")
        assert entry.reason == "a stream has no documents; put the correction"
        with pytest.raises(ps.DefinitionError, match="'counts' can't be restated: the stream 'searches' stores no"):
            engine.restate("counts")
        with pytest.raises(ps.PenstockError, match="'counts' is on the stream 'searches', which stores no records"):
            engine.snapshot().view("counts").why("cats")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lateness": "2 s"}, "lateness= of stream 's' is '2 s'; write a duration such as '2s'"),
        ({"idle": -1}, "idle= of stream 's' is -1"),
        ({"unit": "m"}, "unit= of stream 's' is 'm'; write 's', 'ms' or 'us'"),
        ({"sources": "eu"}, "sources= of stream 's' is 'eu'; write a tuple"),
        ({"ts": None}, "ts= of stream 's' is None; write the path of a field"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.DefinitionError) as refused:
        ps.App("web").stream("s", **{"ts": "at", **given})
    assert message in str(refused.value)


def test_a_stream_is_no_side_of_a_join_and_shares_its_name_with_nothing() -> None:
    app = app_of()
    users = app.table("users", key="id")
    with pytest.raises(ps.DefinitionError, match="side 's' of join 'j' is the stream 'searches'"):
        app.join("j", s=app.stream_of("searches"), u=users, on={"s.q": "u.id"})
    with pytest.raises(ps.DefinitionError, match="has a stream named 'searches' already"):
        app.table("searches", key="id")


def test_several_partitions_and_crash_tests_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ps.DefinitionError, match="several partitions can't take the stream 'searches'"):
        ps.open(app_of(), tmp_path / "s", partitions=2)
    with pytest.raises(ps.DefinitionError, match="a crash test can't take the stream 'searches'"):
        crashtest(app_of(), seeds=1)


def test_definitions_change_around_a_stream_that_has_records(store_path: Path) -> None:
    with ps.open(app_of(), store_path) as engine:
        engine.put_many("searches", [{"at": 1, "q": "cats"}, {"at": 2, "q": "cats"}, {"at": 3, "q": "dogs"}])
    more = app_of(lateness="9s")  # lateness may change, and new views begin with the next record
    searches = more.stream_of("searches")
    searches.view("later", key="q", reduce=ps.count())
    more.view_of("counts").view("sizes", key="value", reduce=ps.count())
    with ps.open(more, store_path) as engine:
        engine.migrate()
        engine.put("searches", {"at": 4, "q": "dogs"})
        with engine.snapshot() as snap:
            assert dict(snap.view("later").items()) == {"dogs": 1}
            assert dict(snap.view("sizes").items()) == {2: 2}
        assert engine.check().ok
    for wrong, why in ((app_of(unit="ms"), "unit was 's' and is 'ms'"), (app_of(by="k"), "which stores no records")):
        with pytest.raises(ps.PenstockError, match=why):
            ps.open(wrong, store_path)


def test_watermarks_name_the_source_that_they_wait_for() -> None:
    with TestEngine(app_of(lateness="2s", idle="30s", sources=("eu", "us")), now=100) as engine:
        assert engine.engine.watermarks("searches")[0].reason == "the first record of eu, which is in sources="
        engine.put("searches", {"at": 90, "q": "a"}, {"at": 101, "q": "b"}, source="eu")
        assert engine.watermark("searches") is None
        engine.put("searches", {"at": 95, "q": "a"}, source="us")
        assert engine.watermark("searches") == 93
        assert engine.engine.watermarks()[0].reason == "us at 1: newest 1970-01-01 00:01:35, less lateness 2s"
        engine.wait("20s")
        engine.put("searches", {"at": 115, "q": "a"}, source="eu")
        engine.wait("15s")
        assert engine.watermark("searches") == 113
        engine.wait("31s")
        assert engine.watermark("searches") == 159  # the clock: 115 less 2, plus the 46 s since
        engine.put("searches", {"at": 115, "q": "a"}, source="us")
        [own] = engine.engine.watermarks("searches")
        assert (own.time, own.late, own.late_rejoined) == (159, 1, 1)
        assert [(source.source, source.state) for source in own.sources] == [("eu", "idle"), ("us", "counts")]


def test_a_statement_replaces_lateness_and_never_lowers_the_watermark() -> None:
    with TestEngine(app_of(lateness="2s")) as engine:
        engine.put("searches", {"at": 50, "q": "a"})
        engine.advance("searches", 60)
        assert engine.watermark("searches") == 60
        engine.put("searches", {"at": 70, "q": "a"})
        engine.advance("searches", "1970-01-01T00:00:30Z")
        assert engine.watermark("searches") == 60
        with pytest.raises(ps.ArgumentKind, match="give a number in s, or a text such as"):
            engine.advance("searches", "soon")


def test_a_file_that_was_read_to_its_end_does_not_count() -> None:
    with TestEngine(app_of()) as engine:
        engine.put("searches", {"at": 10, "q": "a"}, source="file:a")
        engine.put("searches", {"at": 20, "q": "a"}, source="file:b")
        assert engine.watermark("searches") == 10
        engine.engine.rest(["file:a"], ended=True)
        assert engine.watermark("searches") == 20


def test_records_in_front_of_the_clock_ask_about_the_unit() -> None:
    with TestEngine(app_of(), now=1_700_000_000) as engine:
        engine.put("searches", {"at": 1_700_000_000_000, "q": "a"})
        [own] = engine.engine.watermarks()
        assert own.time is None
        assert own.reason.endswith("1 records are more than 5m in front of the clock; are their ts in ms? unit='ms'")


def test_the_clock_of_the_machine_closes_a_quiet_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    ticked = threading.Event()
    with ps.open(app_of(idle="1ms", ahead="7d"), None) as engine:
        tick = engine.store.tick

        def seen() -> None:
            tick()
            ticked.set()

        monkeypatch.setattr(engine.store, "tick", seen)
        engine.put("searches", {"at": 5, "q": "a"})
        assert ticked.wait(PATIENCE)
        [own] = engine.watermarks()
        assert own.sources[0].state == "idle"
