"""Changes as server-sent events: order, resumption, shared reads, and watchers that fall behind."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

import penstock as ps
from tests.serve.asgi import AsgiServer, shop, until
from tests.waiting import PATIENCE


def document(key: int, ts: int, country: str = "NO", amount: int = 1) -> dict[str, Any]:
    return {"id": key, "ts": ts, "country": country, "amount": amount}


def events(data: bytes) -> list[dict[str, Any]]:
    """Split the text of a stream into events, without comments."""
    out = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            out.append({"event": "message", **fields, "data": json.loads(fields["data"])})
    return out


def results(found: list[dict[str, Any]]) -> list[Any]:
    """Return the new results; with several partitions, positions differ between reads."""
    return [(one["data"]["group"], one["data"]["new"]) for one in found]


async def read(server: AsgiServer, path: str, enough: int, **headers: str) -> tuple[int, list[dict[str, Any]]]:
    """Follow a stream until so many events came, or it ends."""
    status, data = 0, b""
    async with asyncio.timeout(PATIENCE):
        async with aclosing(server.messages("GET", path, (b"",), **headers)) as messages:
            async for message in messages:
                status = message.get("status", status)
                data += message.get("body", b"")
                if len(events(data)) >= enough or status != 200:
                    break
    return status, events(data)


async def written(server: AsgiServer, path: str, enough: int, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Follow a stream, and put documents one by one once it is open."""
    following = asyncio.ensure_future(read(server, path, enough))
    await until(lambda: server.service.events.watchers)
    for one in documents:
        await asyncio.to_thread(server.engine.put, "orders", one)
    return (await following)[1]


@pytest.mark.parametrize("partitions", [1, 2])
def test_changes_come_in_order_and_continue_after_a_position(partitions: int) -> None:
    app = shop()
    with ps.open(app, None, partitions=partitions) as engine, AsgiServer(engine, app) as server:
        documents = [document(i, 1, amount=i) for i in range(1, 6)]
        found = server.run(written(server, "/v1/events?view=revenue", 5, documents))
        assert [one["data"]["new"]["n"] for one in found] == [1, 2, 3, 4, 5]
        assert "old" not in found[0]["data"]
        assert found[2]["id"] == json.dumps(found[2]["data"]["position"]).replace(" ", "")
        query = f"/v1/events?view=revenue&since={found[1]['id']}"
        assert results(server.run(read(server, query, 3))[1]) == results(found[2:])
        resumed = read(server, "/v1/events?view=revenue&since=0", 3, last_event_id=found[1]["id"])
        assert results(server.run(resumed)[1]) == results(found[2:])


def test_changes_of_one_group_are_merged() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        for i in range(1, 30):
            engine.put("orders", document(i, 1))
        engine.put("orders", document(99, 1, "SE"))
        engine.delete("orders", 99, ts=2)
        [only] = server.run(read(server, "/v1/events?view=revenue&since=0&coalesce=1", 1))[1]
        assert (only["data"]["new"]["n"], only["data"]["position"]) == (29, 29)


def test_watchers_of_one_view_share_reads() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        reads = 0
        feed = engine.feed

        def counted(*views: str, **asked: Any) -> Any:
            nonlocal reads
            reads += "until" in asked
            return feed(*views, **asked)

        engine.feed = counted  # type: ignore[method-assign]

        async def watch() -> list[Any]:
            streams = [asyncio.ensure_future(read(server, "/v1/events?view=revenue", 1)) for _ in range(50)]
            await until(lambda: server.service.events.watchers == 50)
            await asyncio.to_thread(engine.put, "orders", document(1, 1))
            return await asyncio.gather(*streams)

        found = server.run(watch())
        assert len(found) == 50
        assert all(one == found[0] for one in found)
        assert reads <= 4


def test_a_position_that_left_the_feed() -> None:
    app = shop()
    with ps.open(app, None, changes=5) as engine, AsgiServer(engine, app) as server:
        for ts in range(1, 40):
            engine.put_many("orders", [document(i, ts, f"c{ts}") for i in range(9)])
        gone = server.ask("GET", "/v1/events?view=revenue&since=1")
        assert (gone.status, gone.json["error"]["code"]) == (410, "position expired")
        assert server.ask("GET", "/v1/events?since=4000").json["error"]["code"] == "position not reached"
        status, [reset] = server.run(read(server, "/v1/events?view=revenue", 1, last_event_id="1"))
        assert (status, reset["event"], reset["id"]) == (200, "reset", "39")


def test_a_watcher_that_falls_behind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop()
    with ps.open(app, None, changes=5) as engine, AsgiServer(engine, app) as server:
        engine.put("orders", document(1, 1))

        async def fall() -> list[dict[str, Any]]:
            data = b""
            async for message in server.messages("GET", "/v1/events?view=revenue&coalesce=1"):
                data += message.get("body", b"")
                if len(events(data)) == 0 and b"open" in message.get("body", b""):
                    for ts in range(2, 40):  # the stream can't run meanwhile
                        engine.put_many("orders", [document(i, ts, f"c{ts}") for i in range(9)])
            return events(data)

        [lagged] = server.run(fall())
        assert lagged["event"] == "lagged"
        assert server.service.events.watchers == 0


def test_streams_end_with_the_server() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:

        async def ended() -> tuple[int, list[Any]]:
            stream = asyncio.ensure_future(read(server, "/v1/events", 1))
            await until(lambda: server.service.events.watchers)
            server.service.events.end()
            return await stream

        assert server.run(ended()) == (200, [])


def test_too_many_watchers_are_refused() -> None:
    app = shop()
    with ps.open(app, None) as engine, AsgiServer(engine, app) as server:
        server.service.events.watchers = 1_000
        busy = server.ask("GET", "/v1/events")
        assert (busy.status, busy.headers["retry-after"]) == (429, "1")
