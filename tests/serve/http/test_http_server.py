"""Connections of the HTTP server: silent ones, slow and long headers, and bodies that are not headers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import penstock as ps
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, digest_of
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.http import http_server as server_module
from penstock.serve.http.gate import Gate
from penstock.serve.http.http_server import http_server, known_hosts
from tests.serve.asgi import TOKEN, AsgiServer, lines, shop, until
from tests.serve.silence import hold_silent, pause
from tests.waiting import PATIENCE

HEAD = f"host: localhost\r\nauthorization: Bearer {TOKEN}\r\n".encode()
WAIT = 0.2


def served(work: Callable[[int], Awaitable[None]]) -> None:
    """Run a client beside a server on a port of loopback."""
    app, address = shop(), ListenAddress("127.0.0.1", 0)
    [sock] = address.bound(1)
    with AsgiServer(ps.open(app, None), app) as inner:
        tokens = TokenBook(AccessToken("test", Role.ADMIN, digest_of(TOKEN)))

        async def beside() -> None:
            own = http_server(Gate(inner.service.application(), tokens, known_hosts(address)), None, 1)
            task = asyncio.ensure_future(own.serve(sockets=[sock]))
            await until(lambda: own.started)
            try:
                await asyncio.wait_for(work(sock.getsockname()[1]), PATIENCE)
            finally:
                own.should_exit = True
                await task

        inner.run(beside())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nhost: local",
        b"GET /healthz HTTP/1.1\r\n" + HEAD + b"\r\n" + b"GET /v1/status HTTP/1.1\r\nx: y",
    ],
    ids=["silent", "slow headers", "slow second request"],
)
def test_a_connection_without_headers_ends(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(server_module, "_HEADERS", WAIT)

    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()  # until the server ends it
        assert answer.count(b"200 OK") == sent.count(b"\r\n\r\n")
        writer.close()

    served(work)


def test_headers_without_end_are_not_kept() -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        line, sent = b"x-long: " + b"y" * 4000 + b"\r\n", 0
        while not reader.at_eof() and sent < (4 << 20):
            try:
                writer.write(line)
                await writer.drain()
            except ConnectionError:
                break
            sent += len(line)
            await pause(0)
        assert sent < (4 << 20)
        writer.close()

    served(work)


def test_a_body_may_take_longer_than_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_HEADERS", WAIT)
    body = lines({"id": 1, "ts": 1}, {"id": 2, "ts": 1})

    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        length = f"content-length: {len(body)}\r\n\r\n".encode()
        writer.write(b"POST /v1/tables/orders HTTP/1.1\r\nconnection: close\r\n" + HEAD + length + body[:5])
        await writer.drain()
        await pause(2 * WAIT)
        writer.write(body[5:])
        assert b'"applied": 2' in await reader.read()
        writer.close()

    served(work)


def test_silent_connections_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_HEADERS", 2 * WAIT)

    async def work(port: int) -> None:
        found = await hold_silent(port, 200)
        assert (found.opened, found.ended) == (200, 200)
        assert found.healthy > 0
        assert found.unhealthy == 0

    served(work)
