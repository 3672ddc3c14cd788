"""URIs of the spout that Wallaroo workers connect to: each mistake names the URI and the next step."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.cache import hidden
from penstock.spout import SPOUTS, SourceUnreadable, UriError, WallarooSpout


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("wallaroo://127.0.0.1", "write it as wallaroo://127.0.0.1:7100"),
        ("wallaroo://127.0.0.1:70000", "names no address"),
        ("wallaroo:7100", "names no address"),
        ("wallaroo://0.0.0.0:0", "add expose=1"),
        ("wallaroo://127.0.0.1:0?cooky=C", "there is no option 'cooky'"),
        ("wallaroo://127.0.0.1:0?format=csv", "it is one of json, msgpack"),
        ("wallaroo://127.0.0.1:0?envelope=topic", "it is one of view"),
        ("wallaroo://127.0.0.1:0?cookie=C&cookie-file=c", "give one of them"),
        ("wallaroo://127.0.0.1:0?cookie-file=/nowhere/c", "can't be read: No such file"),
        ("wallaroo://0.0.0.0:0?expose=perhaps", "write expose=1 or expose=0"),
    ],
)
def test_a_mistake_is_named(uri: str, said: str) -> None:
    with pytest.raises(UriError) as error:
        _open(uri)
    assert said in str(error.value)


def _open(uri: str) -> WallarooSpout:
    spout = SPOUTS.open(uri, "orders")
    assert isinstance(spout, WallarooSpout)
    spout.close()
    return spout


def test_the_name_in_the_store_has_the_address_or_the_given_name(tmp_path: Path) -> None:
    assert _open("wallaroo://127.0.0.1:0").source == "orders=wallaroo:127.0.0.1:0"
    (tmp_path / "cookie").write_text("C\n")
    assert _open(f"wallaroo://localhost:0?name=a&cookie-file={tmp_path / 'cookie'}").source == "orders=wallaroo:a"


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"wallaroo://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SourceUnreadable, match="choose another port, or end its user"):
            _open(uri)


def test_a_cookie_is_hidden() -> None:
    assert hidden("orders=wallaroo://127.0.0.1:7100?cookie=C&name=a").endswith("?cookie=***&name=a")


@pytest.mark.parametrize("value", ["C", "a:b", "C:", ":", "***"])
def test_the_colon_after_a_cookie_stays_however_often_it_is_hidden(value: str) -> None:
    once = hidden(f"orders=wallaroo://127.0.0.1:7100?cookie={value}: refused")
    assert once == hidden(once) == "orders=wallaroo://127.0.0.1:7100?cookie=***: refused"
