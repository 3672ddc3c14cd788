"""Blocks of documents, decoded as far as needed: structs created at run time, and checks that a struct omits.

A struct decoder skips unknown fields. It checks their syntax, but not UTF-8, the range of numbers and the nesting
depth. `is_plain_json` checks these for a whole block. So every stored document can be read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from penstock.cache import MAX_DEPTH, unpack_hook
from penstock.views import Path, reach

_TYPED: dict[frozenset[type], Any] = {
    frozenset({int}): int,
    frozenset({str}): str,
    frozenset({bool}): bool,
    frozenset({float}): int | float,
    frozenset({int, float}): int | float,
    frozenset({int, type(None)}): int | None,
    frozenset({str, type(None)}): str | None,
}
ColumnOf = Callable[[list[Any]], list[Any]]
_HUGE = re.compile(rb"\d[eE]\+?\d{3}")
_LONG_NUMBER = re.compile(rb"\d{300}")
_LONG = 300
_STEP = 20
_RUN = b"\1" * (_LONG // _STEP)
_FEW = 16  # limit of lines for which the pattern is faster than NumPy's fixed cost


def is_plain_json(lines: Sequence[bytes]) -> bool:
    """Return True if a struct decoder is sufficient for these lines."""
    joined = b"".join(lines)
    if not joined.isascii():
        try:
            joined.decode()
        except UnicodeDecodeError:
            return False
    if is_deep(lines, opened(joined, len(lines))):
        return False
    if len(lines) <= _FEW:
        long, exponent = max(map(len, lines)) >= _LONG, True
    else:
        long, exponent = _numbers(joined)
    return not (long and _LONG_NUMBER.search(joined)) and not (exponent and _HUGE.search(joined))


def opened(joined: bytes, lines: int) -> int:
    """Count the opening brackets of the lines."""
    if lines <= _FEW:
        return joined.count(b"{") + joined.count(b"[")
    return int(np.count_nonzero(np.frombuffer(joined, np.uint8) | 0x20 == 0x7B))  # one bit is between [ and {


def is_deep(lines: Sequence[bytes], opened: int) -> bool:
    """Return True if a line may exceed the nesting limit of documents. `opened` counts the brackets of all lines."""
    many = opened > MAX_DEPTH + len(lines) and max(map(len, lines)) > MAX_DEPTH
    return many and max(line.count(b"{") + line.count(b"[") for line in lines) > MAX_DEPTH


def _numbers(joined: bytes) -> tuple[bool, bool]:
    """Return two flags: there may be a long number, and there may be a large exponent.

    These are much cheaper than the patterns. A number of _LONG digits has a digit at so many places of any _STEP. An
    exponent has a digit before its e, and digits two and three places after it.
    """
    raw = np.frombuffer(joined, np.uint8)
    digit = raw - 48 < 10
    exponent = ((raw[1:-3] | 0x20 == 0x65) & digit[:-4] & digit[3:-1] & digit[4:]).any()
    return _RUN in digit[::_STEP].tobytes(), bool(exponent)


@dataclass(slots=True)
class TypedBlock:
    """The decoded documents of one block, with access to their fields."""

    docs: list[Any]
    types: dict[Path, frozenset[type]]  # of typed blocks: types that the decoder has checked
    get: Callable[[Path], Iterator[Any]]
    flat: bool = False  # documents are dicts without mutable values inside

    def known(self, path: Path) -> frozenset[type]:
        return self.types.get(path, frozenset())

    def list(self, path: Path) -> list[Any]:
        return list(self.get(path))


def dict_getter(docs: Sequence[Any]) -> Callable[[Path], Iterator[Any]]:
    """Return a getter of fields of dicts, or of any objects with `get`."""

    def get(path: Path) -> Iterator[Any]:
        if len(path) == 1:
            name = path[0]
            try:
                return iter([d[name] for d in docs])
            except KeyError:
                return iter([d.get(name) for d in docs])
        return iter([reach(d, path) for d in docs])

    return get


# Written out, since the interpreter reads a named attribute twice as fast as `attrgetter` does.
_FIRST: dict[str, ColumnOf] = {
    "f0": lambda docs: [d.f0 for d in docs],
    "f1": lambda docs: [d.f1 for d in docs],
    "f2": lambda docs: [d.f2 for d in docs],
    "f3": lambda docs: [d.f3 for d in docs],
    "f4": lambda docs: [d.f4 for d in docs],
    "f5": lambda docs: [d.f5 for d in docs],
    "f6": lambda docs: [d.f6 for d in docs],
    "f7": lambda docs: [d.f7 for d in docs],
    "f8": lambda docs: [d.f8 for d in docs],
    "f9": lambda docs: [d.f9 for d in docs],
}


def _column(name: str) -> ColumnOf:
    """Return the function that reads one attribute of many objects."""
    known = _FIRST.get(name)
    if known is not None:
        return known
    get = attrgetter(name)
    return lambda docs: list(map(get, docs))


class TypedDecoders:
    """The struct decoders for a set of paths, with types as strict as the observed values allow."""

    def __init__(self, paths: Sequence[Path], seen: dict[Path, set[type]]) -> None:
        self.types: dict[Path, frozenset[type]] = {}
        self._columns: dict[Path, tuple[ColumnOf, Path]] = {}
        roots: dict[str, list[Path]] = {}
        for path in paths:
            roots.setdefault(path[0], []).append(path)
        required: list[Any] = []
        optional: list[Any] = []
        rename: dict[str, str] = {}
        for i, (root, below) in enumerate(roots.items()):
            name = f"f{i}"
            rename[name] = root
            kind = self._field(name, below, seen)
            if kind is Any or kind in (int | None, str | None):
                optional.append((name, kind, None))
            else:
                required.append((name, kind))
        struct = msgspec.defstruct("Line", [*required, *optional], rename=rename, gc=False)
        self.json = msgspec.json.Decoder(struct).decode
        self.msgpack = msgspec.msgpack.Decoder(struct, ext_hook=unpack_hook).decode

    def _field(self, name: str, below: list[Path], seen: dict[Path, set[type]]) -> Any:
        if len(below) == 1 and len(below[0]) == 1:
            only = below[0]
            types = frozenset(seen.get(only, ()))
            self._columns[only] = (_column(name), ())
            if types in _TYPED:
                self.types[only] = types
                return _TYPED[types]
            return Any
        exact = {p: frozenset(seen.get(p, ())) for p in below}
        if all(len(p) == 2 and len(t) == 1 and t in _TYPED for p, t in exact.items()):
            inner = [(f"g{j}", _TYPED[exact[p]]) for j, p in enumerate(below)]
            struct = msgspec.defstruct("Inner", inner, rename={f"g{j}": p[1] for j, p in enumerate(below)}, gc=False)
            for j, path in enumerate(below):
                self._columns[path] = (_column(f"{name}.g{j}"), ())
                self.types[path] = exact[path]
            return struct
        for path in below:
            self._columns[path] = (_column(name), path[1:])
        return Any

    def block(self, docs: list[Any]) -> TypedBlock:
        def get(path: Path) -> Iterator[Any]:
            column, rest = self._columns[path]
            values = column(docs)
            return iter([reach(v, rest) for v in values] if rest else values)

        return TypedBlock(docs, self.types, get)
