"""Read unreadable and damaged files: records before the damage are returned, and the error names the fault."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
import zstandard

from penstock.cache import MissingExtra
from penstock.spout import (
    SourceMissing,
    SourceUnreadable,
    UriError,
    open_file,
)
from tests.spout.reading import Memory, begun, drain, ids, numbered


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_records_before_the_damage_are_returned(tmp_path: Path, pack: Callable[[bytes], bytes], size: str) -> None:
    kind = "gz" if pack is gzip.compress else "zst"
    text = b"".join(b'{"id": %d, "x": "%s"}\n' % (i, os.urandom(30).hex().encode()) for i in range(20_000))
    whole = pack(text)
    path, memory = tmp_path / f"a.jsonl.{kind}", Memory()
    path.write_bytes(whole[: len(whole) * 3 // 4 if size == "large" else 5])
    with begun(path, memory) as spout:
        lines: list[bytes] = []
        with pytest.raises(SourceUnreadable, match=r"it is cut off after byte [\d,]+; get the file anew"):
            drain(spout, memory, limit=1_000, out=lines)
    assert lines == text.split(b"\n")[: len(lines)]
    assert size == "small" or len(lines) > 5_000
    path.write_bytes(whole)
    with begun(path, memory) as spout:
        assert ids(drain(spout, memory, limit=50_000)) == list(range(len(lines), 20_000))


def test_a_row_cut_by_damage_is_not_returned(tmp_path: Path) -> None:
    text = b"id,x\n" + b"".join(b'%d,"%s\n%s"\n' % (i, os.urandom(20).hex().encode(), b"b") for i in range(500))
    path, memory, found = tmp_path / "a.csv.gz", Memory(), list[bytes]()
    path.write_bytes(gzip.compress(text)[:-3_000])
    for limit in (7, 1_000):
        with begun(path, memory) as spout, pytest.raises(SourceUnreadable, match="it is cut off"):
            drain(spout, memory, limit=limit, out=found)
    assert ids(found) == list(range(len(found)))
    assert len(found) > 100


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_wrong_compression_is_reported(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_bytes(numbered(0, 9))
    with begun(path, Memory()) as spout, pytest.raises(SourceUnreadable, match=r"it is no (gzip|Zstandard) file; say"):
        spout.next_batch(10)
    with begun(path, Memory(), format="jsonl") as spout:
        assert len(spout.next_batch(10).records.lines) == 9, "as was said"


def test_damage_in_the_middle_is_reported(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(60_000).hex().encode().replace(b"f", b"\n")))
    packed[40_000:40_050] = b"\xff" * 50
    path = tmp_path / "a.gz"
    path.write_bytes(packed)
    with begun(path, Memory()) as spout, pytest.raises(SourceUnreadable, match=r"it is damaged near byte [\d,]+; get"):
        drain(spout, Memory(), limit=100_000)


def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(b"")
    missing = {"zstandard": None, "compression.zstd": None}
    with mock.patch.dict("sys.modules", missing), pytest.raises(MissingExtra, match=r"penstock\[zstd\]"):
        open_file(str(path), "t")


def test_a_file_that_can_not_be_opened_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "users.jsonl").write_bytes(b"")
    for path, options, kind, words in (
        (tmp_path / "usres.jsonl", {}, SourceMissing, f"there is no such file; did you mean {tmp_path}/users.jsonl?"),
        (tmp_path / "zzz", {}, SourceMissing, "there is no such file; check the path"),
        (tmp_path / "users.jsonl?follow=1", {}, SourceMissing, "options stand in a URI, as in file:PATH?follow=1"),
        (tmp_path, {}, SourceMissing, f"it is a folder; name the files in it, as in {tmp_path}/*.jsonl"),
        (tmp_path / "users.jsonl", {"format": "xml"}, UriError, "there is no format 'xml'"),
        (tmp_path / "users.jsonl", {"format": "csv.rar"}, UriError, "there is no format 'csv.rar'"),
        (tmp_path / "users.jsonl", {"delimiter": ";"}, UriError, "the delimiter is ';'"),
        (tmp_path / "users.jsonl", {"format": "csv.gz", "follow": True}, UriError, "only a file of plain lines"),
    ):
        with pytest.raises(kind) as caught:
            open_file(str(path), "t", **options)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("x.csv.zip", "unzip -p {} | penstock load TABLE - --format-in csv"),
        ("x.zip", "unzip -p {} | penstock load TABLE - --format-in jsonl"),
        ("x.jsonl.BZ2", "bzip2 -dc {} | penstock load TABLE - --format-in jsonl"),
        ("x.csv.xz", "xz -dc {} | penstock load TABLE - --format-in csv"),
        ("x.csv.tar.gz", "tar -xOf {} | penstock load TABLE - --format-in csv"),
    ],
)
def test_an_archive_is_refused_by_name(tmp_path: Path, name: str, hint: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 what it has does not matter")
    with pytest.raises(SourceUnreadable, match="can't be read; unpack it") as refused:
        open_file(str(path), "t")
    assert hint.format(path) in str(refused.value)
    other = tmp_path / "x.csv"
    other.write_bytes(path.read_bytes())
    with begun(other, Memory()) as spout, pytest.raises(SourceUnreadable, match="it is a zip archive; unpack it"):
        spout.next_batch(9)
