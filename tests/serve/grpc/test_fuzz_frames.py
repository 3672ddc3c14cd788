"""Truncated and random frames, and random bytes as messages: the server refuses them and goes on answering."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import grpc
import pytest

import penstock as ps
from penstock.rpc import penstock_pb2 as pb
from tests.serve.asgi import shop
from tests.serve.grpc.rpc_server import TOKEN, RpcServer
from tests.waiting import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
CALLS = ("Upsert", "Remove", "Get", "Locate")


@pytest.fixture
def server() -> Iterator[RpcServer]:
    app = shop()
    with ps.open(app, None) as engine, RpcServer(engine, app) as made:
        yield made


def frame(choose: random.Random) -> bytes:
    """Return a frame with a random kind, and a length that may be huge or wrong."""
    body = choose.randbytes(choose.randrange(40))
    length = choose.choice([len(body), len(body) + 7, 0xFFFFFF, 0])
    head = length.to_bytes(3) + bytes([choose.randrange(12), choose.randrange(256)])
    return head + choose.randrange(1 << 31).to_bytes(4) + body


def answers(server: RpcServer) -> bool:
    return bool(server.call("Locate", pb.LocateRequest()).partitions)


def code_of(error: grpc.RpcError) -> str:
    assert isinstance(error, grpc.Call)
    return error.code().name


def test_random_frames_end_only_their_connection(server: RpcServer) -> None:
    choose = random.Random(5)
    for _ in range(60):
        begin = choose.choice([b"", PREFACE[: choose.randrange(len(PREFACE))], PREFACE, PREFACE + SETTINGS])
        with socket.create_connection(("127.0.0.1", server.server.port), PATIENCE) as sock:
            try:
                sock.sendall(begin + b"".join(frame(choose) for _ in range(choose.randrange(4))))
            except OSError:
                continue  # the server has closed it already
    assert answers(server)


def test_random_messages_are_refused(server: RpcServer) -> None:
    choose, metadata, codes = random.Random(6), [("authorization", f"Bearer {TOKEN}")], set[str]()
    for i in range(60):
        name = CALLS[i % len(CALLS)]
        call = server.channel.unary_unary(f"/penstock.v1.Data/{name}")
        message = choose.randbytes(choose.randrange(1, 60))
        try:
            call(message, metadata=metadata, timeout=PATIENCE)
        except grpc.RpcError as error:
            codes.add(code_of(error))
    assert codes
    assert not codes & {"DEADLINE_EXCEEDED", "UNAVAILABLE", "OK"}
    assert answers(server)


def test_random_tokens_are_refused(server: RpcServer) -> None:
    choose = random.Random(7)
    for _ in range(20):
        text = "".join(chr(choose.randrange(32, 127)) for _ in range(choose.randrange(30)))
        with pytest.raises(grpc.RpcError) as refused:
            server.stub["Locate"](pb.LocateRequest(), metadata=[("authorization", text)], timeout=PATIENCE)
        assert code_of(refused.value) == "UNAUTHENTICATED"
    assert answers(server)
