"""Addresses of a server: loopback by default, and one server per port."""

from __future__ import annotations

import pytest

from penstock.cache import DefinitionError
from penstock.serve.access.listen_address import ListenAddress, NotLoopback
from penstock.serve.server_settings import ServerSettings


@pytest.mark.parametrize("text", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"])
def test_loopback_needs_no_flag(text: str) -> None:
    address = ListenAddress.of(text)
    assert str(ServerSettings("state", address).http) == text


@pytest.mark.parametrize("text", ["0.0.0.0:7181", "[::]:7181", "10.0.0.1:7181", "example.org:7181"])
def test_another_address_needs_the_flag(text: str) -> None:
    with pytest.raises(NotLoopback, match=r"--expose-without-tls .* listen on 127\.0\.0\.1:7181"):
        ServerSettings("state", ListenAddress.of(text))
    assert ServerSettings("state", ListenAddress.of(text), exposed=True).http.port == 7181


@pytest.mark.parametrize("text", ["", "nowhere", ":80", "host:", "host:-1", "host:65536", "host:x"])
def test_a_text_that_is_no_address(text: str) -> None:
    with pytest.raises(DefinitionError, match="write HOST:PORT"):
        ListenAddress.of(text)


def test_fronts_share_a_port_and_servers_do_not() -> None:
    sockets = ListenAddress.of("127.0.0.1:0").bound(3)
    port = sockets[0].getsockname()[1]
    assert {sock.getsockname()[1] for sock in sockets} == {port}
    sockets[0].listen()
    with pytest.raises(OSError, match="in use"):
        ListenAddress("127.0.0.1", port).bound(1)
    for sock in sockets:
        sock.close()
