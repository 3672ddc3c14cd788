"""Open URIs by scheme, with built-in spouts and those of installed packages."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from penstock.spout import SPOUTS, FileSpout, Registry, Spout, UnknownScheme, Uri, UriError

BROUGHT = """
from penstock.spout import Contract

class Numbers:
    contract = Contract(True, "they are always the same")
    ended = False
    def __init__(self, uri, table):
        uri.only("to")
        self.to, self.table = int(uri.options["to"]), table
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that registers the scheme `numbers`."""
    info = tmp_path / "numbers_spout-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers-spout\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.spouts]\nnumbers = numbers_spout:Numbers\n")
    (tmp_path / "numbers_spout.py").write_text(BROUGHT)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("text", "scheme", "rest", "options"),
    [
        ("a.jsonl", "file", "a.jsonl", {}),
        ("a.jsonl?follow=1", "file", "a.jsonl?follow=1", {}),
        ("-", "file", "-", {}),
        ("./kafka:a", "file", "./kafka:a", {}),
        ("file:a%3Fb.csv?format=csv&follow", "file", "a?b.csv", {"format": "csv", "follow": ""}),
        ("file:///data/a", "file", "/data/a", {}),
        ("file://localhost/data/a", "file", "/data/a", {}),
        ("file:/data/a", "file", "/data/a", {}),
        ("kafka://host:9092/topic?from=earliest", "kafka", "//host:9092/topic", {"from": "earliest"}),
        ("c:a.jsonl", "file", "c:a.jsonl", {}),
    ],
)
def test_a_uri_is_split_into_its_parts(text: str, scheme: str, rest: str, options: dict[str, str]) -> None:
    uri = Uri.parse(text)
    assert (uri.scheme, uri.rest, dict(uri.options)) == (scheme, rest, options)


@pytest.mark.parametrize(
    ("value", "flag"), [("follow=1", True), ("follow", True), ("follow=no", False), ("", False), ("follow=0", False)]
)
def test_an_option_is_on_or_off(value: str, flag: bool) -> None:
    assert Uri.parse(f"file:a?{value}").flag("follow") is flag


def test_an_option_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(UriError, match="follow=perhaps is neither on nor off; write follow=1 or follow=0"):
        Uri.parse("file:a?follow=perhaps").flag("follow")


def test_a_file_and_standard_input_are_built_in(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n")
    for uri in (str(path), f"file:{path}", f"file:{path}?follow=1&format=jsonl", "-"):
        spout = SPOUTS.open(uri, "users")
        assert isinstance(spout, FileSpout)
        assert spout.contract.exact is (uri != "-")
        assert spout.source == (None if uri == "-" else f"users=file:{path}")
        spout.close()


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UriError, match="there is no option 'folow'; the options are follow, format, delimiter, null, again"
    ):
        SPOUTS.open(f"file:{tmp_path}/a?folow=1", "users")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UnknownScheme, match=r"there is no spout for kafak: URIs; there are .*file.*; install"):
        SPOUTS.open("kafak://host/topic", "users")
    sinks: Registry[Any] = Registry("sink", "penstock.sinks", {})
    with pytest.raises(UnknownScheme, match="there is no sink for file: URIs; none is installed"):
        sinks.open("file:a", "users")


@pytest.mark.usefixtures("package")
def test_a_package_registers_a_scheme() -> None:
    assert "numbers" in SPOUTS.names()
    spout: Any = SPOUTS.open("numbers:?to=7", "users")
    assert (spout.to, spout.table) == (7, "users")
    with pytest.raises(UriError, match="there is no option 'from'; the options are to"):
        SPOUTS.open("numbers:?from=7", "users")


def test_the_spouts_of_files_implement_the_protocol(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n")
    spout: Spout = SPOUTS.open(str(path), "users")
    methods = [name for name, value in vars(Spout).items() if callable(value) and not name.startswith("_")]
    assert len(methods) <= 5
    assert all(hasattr(spout, name) for name in (*methods, *Spout.__annotations__))
    spout.close()
