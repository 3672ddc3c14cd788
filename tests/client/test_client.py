"""The client over a real connection: calls, splits, sessions, retries, changes; and the same calls with asyncio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

import penstock as ps
from penstock.client import AsyncClient, Client, ServiceError
from penstock.engine import Engine
from penstock.remote import Operation
from penstock.serve.store.store_access import HolderAbsent, LocalAccess
from tests.serve.asgi import shop
from tests.serve.grpc.rpc_server import TOKEN, RpcServer


def order(key: int, country: str = "NO", ts: int = 1, amount: Any = 1, day: int = 1) -> dict[str, Any]:
    return {"id": key, "ts": ts, "country": country, "day": day, "amount": amount}


class ShakyAccess(LocalAccess):
    """A holder that fails: before a call it is absent, and after a commit its answer is lost."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.absent = 0
        self.lost = 0
        self.calls = 0

    def call(self, operation: Operation[Any], progress: Callable[..., None] | None = None, /, **arguments: Any) -> Any:
        self.calls += 1
        if self.absent:
            self.absent -= 1
            raise HolderAbsent("store")
        done = super().call(operation, progress, **arguments)
        if self.lost:
            self.lost -= 1
            raise ps.Closed("the holder")
        return done


@pytest.fixture
def access() -> Iterator[ShakyAccess]:
    with ps.open(shop(), None) as engine:
        yield ShakyAccess(engine)


@pytest.fixture
def client(access: ShakyAccess) -> Iterator[Client]:
    with RpcServer(access.reader, shop(), access) as server, Client(server.target, TOKEN, patience=60) as made:
        yield made


def test_documents_are_put_and_read(client: Client) -> None:
    assert str(client.put("orders", order(1))) == "1 applied"
    assert str(client.put_many("orders", [order(2, "SE"), '{"id": 3, "ts": 1, "country": "SE"}', b"x"])).startswith(
        "2 applied, 1 rejected"
    )
    view = client.view("revenue")
    assert view["NO"] == {"n": 1, "total": 1}
    assert view.get("DK") is None
    assert view.get_many(["SE", "DK"], 0) == [{"n": 2, "total": 1}, 0]
    assert "NO" in view
    with pytest.raises(KeyError):
        view["DK"]
    assert [row.key for row in view] == ["NO", "SE"]
    assert client.delete("orders", 1, ts=2).applied == 1
    assert [row.key for row in client.table("orders")] == [2, 3]
    assert client.put_many("orders", [order(9)], dry_run=True).applied == 1
    with pytest.raises(ServiceError, match="needs no document") as failed:
        client.put("orders", order(2, ts=3), conditions={2: ps.ABSENT})
    assert failed.value.about == {"2": "a document of ts 1"}
    with pytest.raises(ServiceError, match="revenue") as failed:
        client.view("revenu").get("NO")
    assert (failed.value.code, failed.value.about) == ("NOT_FOUND", {"nearest": "revenue"})


def test_values_come_back_exactly(client: Client, access: ShakyAccess) -> None:
    document = order(1) | {"price": Decimal("1.50"), "raw": b"\x00\xff", "wide": 1 << 80, "list": [1, None, "Å"]}
    client.put("orders", document)
    assert client.table("orders")[1] == document
    with access.reader.snapshot() as snap:
        assert snap.table("orders")[1] == document


def test_long_input_is_split(client: Client, access: ShakyAccess) -> None:
    documents = [order(i) | {"text": "x" * 3000} for i in range(1000)]
    assert client.put_many("orders", documents).applied == 1000
    assert access.calls == 3
    assert len(client.table("orders").get_many(range(2500))) == 2500
    with pytest.raises(ps.PenstockError, match="a document has"):
        client.put("orders", {"id": 1, "text": "x" * (1 << 20)})
    with pytest.raises(ps.PenstockError, match="one request of at most 1 MiB"):
        client.put_many("orders", documents, conditions={1: ps.ABSENT})


def test_pages_are_read_in_order(client: Client) -> None:
    client.put_many("orders", [order(i, ("NO", "SE")[i % 2], day=i) for i in range(20)])
    view = client.view("by_day")
    assert [row.key for row in view.items(prefix=("NO",), limit=2)] == [("NO", 0), ("NO", 2)]
    assert [row.key for row in view.items(start=("SE", 17), reverse=True)] == [("SE", 19), ("SE", 17)]
    assert dict(view.rollup()) == {("NO",): 10, ("SE",): 10}
    assert list(view.items(limit=0)) == []


def test_a_call_that_changed_nothing_is_repeated(client: Client, access: ShakyAccess) -> None:
    access.absent = 2
    assert client.put("orders", order(1)).applied == 1
    assert access.calls == 3


def test_a_write_of_unknown_outcome_is_repeated_in_a_session_only(client: Client, access: ShakyAccess) -> None:
    access.lost = 1
    with pytest.raises(ServiceError) as failed:
        client.put("orders", order(1))
    assert failed.value.passes
    assert access.calls == 1
    session = client.session("s")
    assert session.upto("orders") == 0
    access.lost = 2
    assert session.put_many("orders", [order(2), order(3)]).late == 2  # the first try had stored them
    assert session.upto("orders") == 2
    assert session.put("orders", order(4)).applied == 1
    access.lost = 1
    session.delete("orders", 4, ts=2)
    assert session.upto("orders") == 4
    assert client.view("revenue")["NO"]["n"] == 3
    assert client.session("s").put("orders", order(5)).applied == 1
    with pytest.raises(ServiceError) as failed:
        client.session("s").put("orders", order(6), number=9)
    assert (failed.value.reason, failed.value.about) == ("SESSION_GAP", {"upto": "5"})


def test_changes_are_those_of_the_engine(client: Client, access: ShakyAccess) -> None:
    client.put_many("orders", [order(1), order(2, "SE")])
    client.put("orders", order(3))
    with access.reader.snapshot() as snap:
        position = snap.position
    for given in ({}, {"since": 1}, {"initial": True}):
        found, wanted = (list(own.changes("revenue", **given)) for own in (client, access.reader))  # type: ignore[arg-type]
        assert found == wanted, given
    follower = client.changes("revenue", since=position, follow=True)
    client.put("orders", order(4))
    change = next(follower)
    assert (change.group, change.new, change.position) == ("NO", {"n": 3, "total": 3}, position + 1)
    follower.close()
    with pytest.raises(ServiceError):
        list(client.changes("revenue", since=99))


def test_no_server_is_named() -> None:
    with Client("127.0.0.1:1", patience=0.1) as client, pytest.raises(ServiceError, match="no server answers"):
        client.put("orders", order(1))


def test_the_calls_for_asyncio(access: ShakyAccess) -> None:
    async def calls(target: str) -> None:
        async with AsyncClient(target, TOKEN, patience=60) as client:
            assert (await client.put("orders", order(1))).applied == 1
            session = client.session("s")
            assert await session.upto("orders") == 0
            access.lost = 1
            assert (await session.put_many("orders", [order(2), order(3, "SE")])).late == 2
            assert await session.upto("orders") == 2
            view = client.view("revenue")
            assert await view.get("NO") == {"n": 2, "total": 2}
            assert [row.key async for row in view.items()] == ["NO", "SE"]
            assert (await view.row("SE")).value["n"] == 1
            changes = [change.group async for change in client.changes("revenue", initial=True)]
            assert changes == ["NO", "SE"]
            assert (await client.delete("orders", 3, 2)).applied == 1
            with pytest.raises(KeyError):
                await view.row("SE")

    with RpcServer(access.reader, shop(), access) as server:
        asyncio.run(calls(server.target))


def test_importing_the_package_imports_no_grpc() -> None:
    looked = "import sys, penstock; penstock.open; print(*[m for m in sys.modules if m.startswith(('grpc', 'google'))])"
    done = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
    assert ps.Client is Client
    assert ps.AsyncClient is AsyncClient
