"""Live values: rows come once per frame and group, only those of the page, and memory stays bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import penstock as ps
from penstock.cache import StoreMissing, encode_key
from penstock.serve.console import live_pulse
from penstock.serve.console.live_pulse import read_changes
from tests.serve.asgi import AsgiServer, shop, until
from tests.serve.http.test_event_stream import document, events
from tests.waiting import PATIENCE

Stop = Callable[[list[dict[str, Any]]], bool]


async def follow(server: AsgiServer, path: str, stop: Stop, **headers: str) -> list[dict[str, Any]]:
    """Follow a page's stream until its events satisfy a condition."""
    data = b""
    async with asyncio.timeout(PATIENCE), aclosing(server.messages("GET", path, **headers)) as messages:
        async for message in messages:
            data += message.get("body", b"")
            if stop(events(data.replace(b"retry: 2000\n\n", b""))):
                break
    return events(data.replace(b"retry: 2000\n\n", b""))


def rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for one in found if one["event"] == "rows" for row in one["data"]["rows"]]


def shows(key: str, cells: list[str]) -> Stop:
    return lambda found: any(row.get("key") == key and row["cells"] == cells for row in rows(found))


async def put_while(server: AsgiServer, path: str, stop: Stop, *documents: dict[str, Any]) -> list[dict[str, Any]]:
    """Put documents once the stream is open."""
    following = asyncio.ensure_future(follow(server, path, stop))
    await until(lambda: server.console.live.pages)
    for one in documents:
        await asyncio.to_thread(server.engine.put, "orders", one)
    return await following


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_pulse, "_PAUSE", 0.01)
    monkeypatch.setattr(live_pulse, "_SHORT", 0.01)


@pytest.mark.parametrize("partitions", [1, 2])
def test_changed_rows_and_numbers_come(partitions: int) -> None:
    app = shop()
    with ps.open(app, None, partitions=partitions) as engine, AsgiServer(engine, app) as server:
        engine.put("orders", document(1, 1))
        since = server.ask("GET", "/views/revenue.json").json["position"]
        path = f"/live?view=revenue&since={json.dumps(since).replace(' ', '')}"
        stop = shows("NO", ["3", "3,003"])
        found = server.run(put_while(server, path, stop, document(2, 1), document(3, 1, amount=3001)))
        last = rows(found)[-1]
        assert (last["group"], last["order"]) == ('"NO"', encode_key("NO").hex())
        numbers = [one["data"]["numbers"] for one in found if one["event"] == "state"]
        assert numbers[0]["groups:revenue"] == "1"
        assert all("groups:revenue" not in later for later in numbers[1:]), "only changed numbers are sent"


def test_a_page_that_was_hidden_gets_what_it_missed() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        engine.put("orders", document(1, 1))
        engine.put("orders", document(2, 1, "SE"))
        engine.delete("orders", 1, ts=2)
        found = server.run(follow(server, "/live?view=revenue&since=1", lambda e: len(rows(e)) == 2))
        assert {row["order"]: row.get("gone", False) for row in rows(found)} == {
            encode_key("NO").hex(): True,
            encode_key("SE").hex(): False,
        }
        again = server.run(follow(server, "/live?view=revenue&since=1", lambda e: bool(rows(e)), last_event_id="2"))
        assert [row["order"] for row in rows(again)] == [encode_key("NO").hex()]


def test_only_rows_of_the_page_come() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        documents = [document(i, 1, f"c{i:02d}") for i in range(30)]
        engine.put_many("orders", documents)
        first = server.ask("GET", "/views/revenue.json?limit=10&reverse=1").json
        live, last = first["live"], first["rows"][-1]["order"]
        assert (live["start"], live["stop"]) == (last, "g")
        second = server.ask("GET", f"/views/revenue.json?limit=10&reverse=1&cursor={first['cursor']}").json["live"]
        path = f"/live?view=revenue&since=0&start={second['start']}&stop={second['stop']}"
        found = server.run(follow(server, path, lambda e: bool(rows(e))))
        assert {row["key"] for row in rows(found)} >= {f"c{i:02d}" for i in range(10, 20)}
        assert {row["key"] for row in rows(found)} <= {f"c{i:02d}" for i in range(10, 21)}


def test_too_many_changes_load_the_page_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_pulse, "MOST_CHANGES", 20)
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        engine.put_many("orders", [document(i, 1, f"c{i}") for i in range(30)])

        def reloaded(found: list[dict[str, Any]]) -> bool:
            return any(one["event"] == "reload" for one in found)

        assert reloaded(server.run(follow(server, "/live?view=revenue&since=0", reloaded)))
        facts = server.console.facts
        assert read_changes(facts, "revenue", 0, 1).groups is None


def test_pages_share_reads_and_frames_are_few() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        reads, feed = 0, engine.feed

        def counted(*views: str, **asked: Any) -> Any:
            nonlocal reads
            reads += 1
            return feed(*views, **asked)

        engine.feed = counted  # type: ignore[method-assign]

        async def watch() -> None:
            stop = shows("NO", ["40", "40"])
            pages = [asyncio.ensure_future(follow(server, "/live?view=revenue&since=0", stop)) for _ in range(20)]
            await until(lambda: server.console.live.pages == 20)
            await until(lambda: server.console.live.pulse.frames)
            await asyncio.to_thread(engine.put_many, "orders", [document(i, 1) for i in range(40)], batch=1)
            await asyncio.gather(*pages)
            assert len(server.console.live.pulse.frames) <= 4

        server.run(watch())
        assert server.console.live.pages == 0
        assert reads <= 40 + 20, "one read per frame, not one per page and frame"


def test_a_page_continues_after_an_error_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_pulse, "_IDLE", 0.01)
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        status, snapshot, failed = engine.status, server.store.snapshot, list[str]()

        def once(name: str, call: Callable[[], Any]) -> Callable[[], Any]:
            def wrapped() -> Any:
                if name not in failed:
                    failed.append(name)
                    raise StoreMissing("state")
                return call()

            return wrapped

        engine.status = once("status", status)  # type: ignore[method-assign]
        server.store.snapshot = once("snapshot", snapshot)  # type: ignore[method-assign]
        server.run(put_while(server, "/live?view=revenue&since=0", shows("NO", ["1", "1"]), document(1, 1)))
        assert sorted(failed) == ["snapshot", "status"]


def test_streams_end_with_the_server() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:

        async def ended() -> None:
            following = asyncio.ensure_future(follow(server, "/live", lambda _: False))
            await until(lambda: server.console.live.pages)
            server.service.events.end()
            await following

        server.run(ended())


def test_an_unknown_view_is_refused() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        assert server.ask("GET", "/live?view=nothing").status == 404
        assert server.ask("GET", "/live?since=x").status == 400
        server.console.live.pages = 100
        assert server.ask("GET", "/live").status == 429
