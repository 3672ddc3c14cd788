"""Open the spout of a path: find the format and the compression of the file, and its source partition."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from penstock.cache import key_text
from penstock.spout.errors import SourceMissing, SourceUnreadable, UriError
from penstock.spout.files.file_identity import BLOCK, FileBlock, FileFacts, FileState
from penstock.spout.files.line_files import FileFormat, FileSpout
from penstock.spout.files.parquet import ParquetSpout
from penstock.spout.files.streams import PACKINGS, packing_in, packing_of
from penstock.spout.protocol import Remembered
from penstock.views import nearest

STDIN = "-"
FORMATS = ("jsonl", "csv", "tsv", "parquet")
_ARCHIVES = {
    "zip": "unzip -p", "bz2": "bzip2 -dc", "xz": "xz -dc", "lz4": "lz4 -dc", "7z": "7z x -so",
    "tar": "tar -xOf", "tgz": "tar -xOf",
}  # fmt: skip
_OF_SUFFIX = {"csv": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet", "pq": "parquet"}


def open_file(
    path: str,
    table: str,
    format: str | None = None,
    delimiter: str | None = None,
    nulls: Sequence[str] = (),
    follow: bool = False,
    again: bool = False,
    keys: bool = False,
) -> FileSpout | ParquetSpout:
    """Open the spout of a file, or of standard input for "-", for a table.

    `format` is jsonl, csv, tsv or parquet, the first three optionally followed by .gz or .zst. Without it the end of
    the name decides, and any other name means JSON lines. Cells of CSV in `nulls` are null. `follow` reads the file as
    it grows.
    `again` reads it from the beginning, even if the store has read it. With `keys` a line may be any JSON, and the
    store does not remember the file.
    """
    name = "standard input" if path == STDIN else path
    file = os.dup(0) if path == STDIN else _opened(path)
    try:
        regular = path != STDIN and stat.S_ISREG(os.fstat(file).st_mode)
        kind, packed = _kind(path, format, file if regular else None)
        if kind not in FORMATS or packed not in (None, *PACKINGS) or (kind == "parquet" and packed):
            raise UriError(
                name, f"there is no format {format!r}", f"it is one of {', '.join(FORMATS)}, or as in csv.gz"
            )
        if delimiter is not None and (len(delimiter) != 1 or kind != "csv"):
            raise UriError(name, f"the delimiter is {delimiter!r}", "it is one character, and only CSV has one")
        if nulls and kind not in ("csv", "tsv"):
            raise UriError(name, f"{nulls[0]!r} is to be null", "only CSV has such texts; in JSON null is null")
        if follow and (packed or kind == "parquet"):
            raise UriError(name, "only a file of plain lines can be followed", "load it without following it")
        source = f"{table}=file:{_utf8(os.path.realpath(path))}"
        if kind == "parquet":
            if not regular:
                raise SourceUnreadable(name, "Parquet can't be read from a pipe", "save it to a file")
            if keys:
                raise SourceUnreadable(name, "keys can't be read from Parquet", "save them as CSV or JSON lines")
            return ParquetSpout(file, name, source, again)
        own = FileFormat(
            f"{kind}.{packed}" if packed else kind,
            packing_of(packed) if packed else None,
            "\t" if kind == "tsv" else delimiter,
            tuple(nulls),
            keys,
        )
        remembered = source if regular and not keys else None
        return FileSpout(file, name, remembered, own, path if follow and regular else None, again)
    except BaseException:
        os.close(file)
        raise


def begun(path: str, format: str | None, offset: int, number: int) -> Remembered:
    """Return the state that a store has after reading a part of a file: its first bytes and lines, or its first rows.

    The file is plain JSON lines or Parquet.
    """
    file = _opened(path)
    try:
        kind, packed = _kind(path, format, file)
        assert packed is None, "a packed file is read from its beginning"
        if kind == "parquet":
            state = FileState(kind, number, FileBlock.of(b""), FileBlock.of(b""), FileFacts.of(file))
        else:
            first = os.pread(file, min(BLOCK, offset), 0)
            last = os.pread(file, min(BLOCK, offset), max(0, offset - BLOCK))
            state = FileState(kind, number, FileBlock.of(first), FileBlock.of(last), None)
        return Remembered(offset, state.encode())
    finally:
        os.close(file)


def format_of(path: str, format: str | None) -> tuple[str, bool]:
    """Return the format of a file, and whether it is compressed."""
    file = _opened(path)
    try:
        kind, packed = _kind(path, format, file)
        return kind, packed is not None
    finally:
        os.close(file)


def file_size(path: str) -> int | None:
    """Return the size of a file, None for a pipe. Raise SourceMissing or SourceUnreadable if it can't be read."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise SourceMissing(path, "there is no such file", _hint(path)) from None
    except PermissionError:
        raise SourceUnreadable(path, "this user may not look into its folder", "see the permissions of it") from None
    except OSError as error:
        raise SourceMissing(path, os.strerror(error.errno or 0).lower(), "check the path") from None
    except ValueError:  # a character that file names can't contain
        raise SourceMissing(key_text(path), "no file can have this name", "check the path") from None
    if stat.S_ISDIR(found.st_mode):
        raise SourceMissing(path, "it is a folder", f"name the files in it, as in {os.path.join(path, '*.jsonl')}")
    if not os.access(path, os.R_OK):
        raise SourceUnreadable(path, "this user may not read it", "see its permissions with `ls -l`")
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _opened(path: str) -> int:
    file_size(path)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a named pipe may have no writer yet


def _hint(path: str) -> str:
    folder, file = os.path.split(path)
    if "?" in file:
        return "options stand in a URI, as in file:PATH?follow=1"
    try:
        near = nearest(file, os.listdir(folder or "."))
    except OSError:
        near = None
    return f"did you mean {os.path.join(folder, near)}?" if near else "check the path"


def _kind(path: str, format: str | None, file: int | None) -> tuple[str, str | None]:
    """Return the format and the compression. If they are not given, the name or the first bytes decide."""
    named = os.path.basename(path).lower().split(".")[1:]
    if format is not None:
        kind, dot, packed = format.lower().partition(".")
        if dot or kind == "parquet":
            return kind, packed or None
        return kind, None if file is None else packing_in(os.pread(file, 8, 0))
    archive = next((end for end in reversed(named[-2:]) if end in _ARCHIVES), None)
    if archive is not None:
        inner = _OF_SUFFIX.get(named[named.index(archive) - 1] if named.index(archive) else "", "jsonl")
        pipe = f"`{_ARCHIVES[archive]} {path} | penstock load TABLE - --format-in {inner}`"
        raise SourceUnreadable(path, f"files that end in .{archive} can't be read", f"unpack it, as in {pipe}")
    packing = named.pop() if named and named[-1] in PACKINGS else None
    return _OF_SUFFIX.get(named[-1] if named else "", "jsonl"), packing


def _utf8(path: str) -> str:
    """Return a file name, which is bytes, as text for the name of a source partition."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
