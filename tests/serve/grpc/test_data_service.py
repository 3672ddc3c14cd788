"""The service Data: writes, reads, pages, changes, the placement, and the status of each error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import pack
from penstock.rpc import penstock_pb2 as pb
from penstock.serve.access.access_tokens import Role
from tests.serve.asgi import lines, shop
from tests.serve.grpc.rpc_server import RpcServer, refused


@pytest.fixture
def server() -> Iterator[RpcServer]:
    app = shop()
    with ps.open(app, None) as engine, RpcServer(engine, app) as made:
        made.engine = engine  # type: ignore[attr-defined]
        yield made


def order(key: int, country: str = "NO", ts: int = 1, amount: float = 1, day: int = 1) -> dict[str, Any]:
    return {"id": key, "ts": ts, "country": country, "day": day, "amount": amount}


def upsert(server: RpcServer, *documents: Any, **more: Any) -> pb.WriteReply:
    reply: pb.WriteReply = server.call("Upsert", pb.UpsertRequest(table="orders", lines=lines(*documents), **more))
    return reply


def get(server: RpcServer, of: str, *keys: Any, **more: Any) -> list[Any]:
    """Return the value of each key, and None for an absent one."""
    asked = pb.GetRequest(of=of, keys=[json.dumps(key).encode() for key in keys], **more)
    return [json.loads(row.value) if row.present else None for row in server.call("Get", asked).rows]


def test_documents_are_put_read_and_removed(server: RpcServer) -> None:
    done = upsert(server, order(1), order(2, "SE", amount=2.5), b"x", b"")
    assert (done.applied, done.rejected, done.upto, done.token) == (2, 1, 0, b"1")
    assert [(own.table, own.place) for own in done.rejections] == [("orders", "line 3")]
    assert get(server, "revenue", "NO", "DK", "SE") == [{"n": 1, "total": 1}, None, {"n": 1, "total": 2.5}]
    assert get(server, "orders", 2, 3) == [order(2, "SE", amount=2.5), None]
    gone = server.call("Remove", pb.RemoveRequest(table="orders", keys=[b"2", b"7"], ts=b"2"))
    assert (gone.applied, gone.token) == (2, b"2")
    assert get(server, "revenue", "SE", token=gone.token, consistency=pb.SESSION) == [None]


def test_messagepack_documents_keep_bytes_and_wide_numbers(server: RpcServer) -> None:
    documents = [order(1) | {"raw": b"\x00", "wide": 1 << 70}, order(2)]
    done = server.call("Upsert", pb.UpsertRequest(table="orders", msgpack=b"".join(map(pack, documents))))
    assert done.applied == 2
    assert get(server, "orders", 1) == [order(1) | {"raw": {"$bytes": "AA=="}, "wide": 1 << 70}]
    for bad in (b"\xc1", b"\x82\xa1a", pack(order(3))[:-1]):
        with pytest.raises(grpc.RpcError, match="document 1 of msgpack") as wrong:
            server.call("Upsert", pb.UpsertRequest(table="orders", msgpack=bad))
        assert refused(wrong.value)[:2] == ("INVALID_ARGUMENT", "BAD_REQUEST")


@settings(max_examples=50)
@given(st.binary(max_size=40))
def test_any_bytes_are_documents_or_a_wrong_request(data: bytes) -> None:
    from penstock.rpc import documents_in

    try:
        found = list(documents_in(data))
    except ps.DefinitionError:
        return
    assert bool(found) == bool(data)


def test_a_strict_request_is_undone_and_a_dry_run_stores_nothing(server: RpcServer) -> None:
    with pytest.raises(grpc.RpcError) as wrong:
        upsert(server, order(1), b"x", strict=True)
    code, reason, about, again = refused(wrong.value)
    assert (code, reason, again) == ("INVALID_ARGUMENT", "BAD_REQUEST", False)
    assert list(about) == ["line 2"]
    assert upsert(server, order(1), dry_run=True).applied == 1
    assert get(server, "orders", 1) == [None]


def test_conditions_and_sessions(server: RpcServer) -> None:
    absent = [pb.Condition(key=b"1", absent=True)]
    assert upsert(server, order(1), conditions=absent, session="s", number=1).upto == 1
    again = upsert(server, order(1), conditions=absent, session="s", number=1)
    assert (again.late, again.upto) == (1, 1)
    with pytest.raises(grpc.RpcError, match="needs no document") as wrong:
        upsert(server, order(1, ts=2), conditions=absent)
    assert refused(wrong.value)[:3] == ("FAILED_PRECONDITION", "CONDITION_FAILED", {"1": "a document of ts 1"})
    assert upsert(server, order(1, ts=2), conditions=[pb.Condition(key=b"1", ts=b"1")]).applied == 1
    with pytest.raises(grpc.RpcError, match="send number 2 first") as wrong:
        upsert(server, order(5), session="s", number=3)
    assert refused(wrong.value)[:3] == ("FAILED_PRECONDITION", "SESSION_GAP", {"upto": "1"})
    gone = server.call("Remove", pb.RemoveRequest(table="orders", keys=[b"1"], ts=b"3", session="s", number=2))
    assert (gone.applied, gone.upto) == (1, 2)


def test_a_stream_of_numbered_requests(server: RpcServer) -> None:
    first = pb.UpsertRequest(table="orders", lines=lines(order(1), order(2)), session="s", number=1)
    later = pb.UpsertRequest(table="orders", lines=lines(order(3)))
    replies = list(server.call("Put", iter([first, later])))
    assert [(own.applied, own.upto) for own in replies] == [(2, 2), (3, 3)]
    replies = list(server.call("Put", iter([first, later])))
    assert [(own.applied, own.late, own.upto) for own in replies] == [(0, 2, 3), (0, 3, 3)]
    with pytest.raises(grpc.RpcError, match="needs a session and a number"):
        list(server.call("Put", iter([later])))


def test_pages_are_of_one_position(server: RpcServer) -> None:
    upsert(server, *(order(i, ("NO", "SE")[i % 2], day=i) for i in range(10)))
    asked = pb.ScanRequest(of="by_day", prefix=b'["NO"]', limit=3)
    (page,) = server.call("Scan", asked)
    assert [json.loads(row.key) for row in page.rows] == [["NO", 0], ["NO", 2], ["NO", 4]]
    upsert(server, order(6, "DK", ts=2), order(20, "NO", day=99))
    (rest,) = server.call("Scan", pb.ScanRequest(of="by_day", prefix=b'["NO"]', cursor=page.cursor))
    assert [json.loads(row.key) for row in rest.rows] == [["NO", 6], ["NO", 8]]
    assert (rest.token, rest.cursor) == (page.token, b"")
    (last,) = server.call("Scan", pb.ScanRequest(of="by_day", reverse=True, limit=1))
    assert json.loads(last.rows[0].key) == ["SE", 9]
    (sums,) = server.call("Scan", pb.ScanRequest(of="by_day", level=1))
    assert [(json.loads(row.key), json.loads(row.value)) for row in sums.rows] == [
        (["DK"], 1),
        (["NO"], 5),
        (["SE"], 5),
    ]


def test_pages_of_a_stream_are_small_and_complete(server: RpcServer) -> None:
    upsert(server, *(order(i, f"{i:04}" + "x" * 600) for i in range(1000)))
    pages = list(server.call("Scan", pb.ScanRequest(of="revenue")))
    assert len(pages) > 2
    assert all(page.ByteSize() < (300 << 10) for page in pages)
    assert sum(len(page.rows) for page in pages) == 1000
    documents = list(server.call("Scan", pb.ScanRequest(of="orders")))
    assert len(documents) > 2
    assert sum(len(page.rows) for page in documents) == 1000
    with pytest.raises(grpc.RpcError, match="leave out prefix"):
        list(server.call("Scan", pb.ScanRequest(of="orders", prefix=b'"x"')))


def test_history_has_the_changes_of_a_group(server: RpcServer) -> None:
    for ts in (1, 2):
        upsert(server, order(1, ts=ts, amount=ts))
    (row,) = server.call("Get", pb.GetRequest(of="revenue", keys=[b'"NO"'], history=True)).rows
    assert [(own.old, own.new) for own in row.history] == [
        (b"", b'{"n": 1, "total": 1}'),
        (b'{"n": 1, "total": 1}', b'{"n": 1, "total": 2}'),
    ]


def test_a_watch_begins_with_rows_and_resumes(server: RpcServer) -> None:
    upsert(server, order(1), order(2, "SE"))
    watch = server.call("Watch", pb.WatchRequest(views=["revenue"], initial=True))
    rows = next(watch)
    assert [json.loads(own.group) for own in rows.changes] == ["NO", "SE"]
    assert next(watch).token == b"1"
    upsert(server, order(3))
    changes = next(watch)
    assert [(own.group, own.new, own.position) for own in changes.changes] == [(b'"NO"', b'{"n": 2, "total": 2}', b"2")]
    watch.cancel()
    upsert(server, order(4, "SE"), order(5))
    resumed = server.call("Watch", pb.WatchRequest(views=["revenue"], since=changes.token, prefix=b'"S"'))
    assert next(resumed).token == changes.token
    assert next([own.group for own in message.changes] for message in resumed if message.changes) == [b'"SE"']
    resumed.cancel()
    with pytest.raises(grpc.RpcError) as wrong:
        next(server.call("Watch", pb.WatchRequest(views=["revenue"], since=b"99")))
    assert refused(wrong.value)[:2] == ("INVALID_ARGUMENT", "POSITION_NOT_REACHED")


def test_a_watch_ends_with_the_server(server: RpcServer) -> None:
    watch = server.call("Watch", pb.WatchRequest(views=["revenue"]))
    assert next(watch).token == b"0"
    server.data.end()
    assert list(watch) == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_locate_names_the_partition_of_each_key(partitions: int) -> None:
    app = shop()
    with ps.open(app, None, partitions=partitions) as engine, RpcServer(engine, app) as server:
        upsert(server, *(order(i) for i in range(30)))
        placed = server.call("Locate", pb.LocateRequest(of="orders", keys=[b"1", b"2", b'"x"']))
        assert len(placed.partitions) == partitions
        assert placed.partitions[0].range.startswith("0000000000000000-")
        assert placed.partitions[-1].range.endswith("-10000000000000000")
        assert all(own < partitions for own in placed.located)
        assert len(placed.located) == 3
        assert [own.data for own in placed.servers] == ["127.0.0.1:7180"]
        linear = server.call("Get", pb.GetRequest(of="revenue", keys=[b'"NO"'], consistency=pb.LINEARIZABLE))
        assert json.loads(linear.rows[0].value)["n"] == 30


@pytest.mark.parametrize(
    ("call", "request_", "code", "reason"),
    [
        ("Upsert", pb.UpsertRequest(table="order"), "NOT_FOUND", "UNKNOWN_NAME"),
        ("Get", pb.GetRequest(of="x", keys=[b"1"]), "NOT_FOUND", "UNKNOWN_NAME"),
        ("Get", pb.GetRequest(of="revenue", keys=[b"NO"]), "INVALID_ARGUMENT", "BAD_REQUEST"),
        ("Get", pb.GetRequest(of="revenue", keys=[b"{}"]), "INVALID_ARGUMENT", "BAD_REQUEST"),
        ("Get", pb.GetRequest(of="revenue", keys=[b"1"] * 1001), "RESOURCE_EXHAUSTED", "TOO_MANY_KEYS"),
        ("Get", pb.GetRequest(of="revenue", keys=[b"1"], token=b"x"), "INVALID_ARGUMENT", "BAD_REQUEST"),
        ("Get", pb.GetRequest(of="orders", keys=[b"1"], history=True), "INVALID_ARGUMENT", "NO_HISTORY"),
        ("Remove", pb.RemoveRequest(table="orders", keys=[b"["]), "INVALID_ARGUMENT", "BAD_REQUEST"),
        ("Upsert", pb.UpsertRequest(table="orders", session="s"), "INVALID_ARGUMENT", "BAD_REQUEST"),
        ("Locate", pb.LocateRequest(of="x"), "NOT_FOUND", "UNKNOWN_NAME"),
    ],
)
def test_a_wrong_request_is_named(server: RpcServer, call: str, request_: Any, code: str, reason: str) -> None:
    with pytest.raises(grpc.RpcError) as wrong:
        server.call(call, request_)
    assert refused(wrong.value)[:2] == (code, reason)


def test_a_position_that_never_comes_ends_at_the_deadline(server: RpcServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.serve.grpc.deadlines.DEADLINE", 0.0)
    with pytest.raises(grpc.RpcError, match="did not reach position 9 in time") as wrong:
        server.call("Get", pb.GetRequest(of="revenue", keys=[b'"NO"'], token=b"9"))
    assert refused(wrong.value)[:2] == ("DEADLINE_EXCEEDED", "DEADLINE")


def test_a_request_above_the_limit_is_refused_by_the_transport(server: RpcServer) -> None:
    with pytest.raises(grpc.RpcError, match="larger than max") as wrong:
        server.call("Upsert", pb.UpsertRequest(table="orders", lines=b" " * (2 << 20)))
    assert isinstance(wrong.value, grpc.Call)
    assert wrong.value.code().name == "RESOURCE_EXHAUSTED"


def test_roles_and_tables_limit_calls() -> None:
    app = shop()
    app.table("notes", key="id")
    with ps.open(app, None) as engine:
        with RpcServer(engine, app, role=Role.READ) as server:
            assert get(server, "revenue", "NO") == [None]
            with pytest.raises(grpc.RpcError, match="this needs write"):
                upsert(server, order(1))
        with ps.open(shop(), None) as other, RpcServer(other, shop(), tables=frozenset({"notes"})) as server:
            for name, request in (
                ("Get", pb.GetRequest(of="revenue", keys=[b"1"])),
                ("Upsert", pb.UpsertRequest(table="orders")),
            ):
                with pytest.raises(grpc.RpcError, match="limited to notes"):
                    server.call(name, request)
            with pytest.raises(grpc.RpcError, match="about all tables"):
                next(server.call("Watch", pb.WatchRequest()))
            with pytest.raises(grpc.RpcError, match="limited to notes"):
                list(server.call("Put", iter([pb.UpsertRequest(table="orders", session="s", number=1)])))


def test_calls_are_counted_by_status(server: RpcServer) -> None:
    get(server, "revenue", "NO")
    with pytest.raises(grpc.RpcError):
        get(server, "x", "NO")
    counted = {(name, status): sum(counts) for ((_, name), status), (counts, _) in server.calls.calls().items()}
    assert counted == {("penstock.v1.Data.Get", 0): 1, ("penstock.v1.Data.Get", 5): 1}
