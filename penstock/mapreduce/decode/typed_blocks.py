"""Blocks of documents, decoded as far as needed: structs created at run time, and checks that a struct omits.

A struct decoder skips unknown fields. It checks their syntax, but not UTF-8, the range of numbers and the nesting
depth. `is_plain_json` checks these for a whole block. So every stored document can be read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import MAX_DEPTH, unpack_hook
from penstock.views import Path, is_part, reach

_BESIDE_MAPS = frozenset({dict, list, str, bool, int, float, type(None)})
"""The types of values that a struct decoder can distinguish from a map."""
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
_CASE = np.uint8(0x20)  # the bit between E and e, and between [ and {
_EXPONENT = 4  # bytes of an exponent after its first digit
_PIECE = 1 << 16  # bytes that NumPy examines at once: its temporaries stay in the cache
_FEW = 16  # limit of lines for which the pattern is faster than NumPy's fixed cost


def is_plain_json(lines: Sequence[bytes]) -> bool:
    """Return True if a struct decoder is sufficient for these lines."""
    joined = b"".join(lines)
    if not joined.isascii():
        try:
            joined.decode()
        except UnicodeDecodeError:
            return False
    if len(lines) <= _FEW:
        long, exponent = max(map(len, lines)) >= _LONG, True
        brackets = Brackets.of(joined, len(lines))
    else:
        long, exponent, brackets = _numbers(joined)
    if brackets.deep(lines):
        return False
    return not (long and _LONG_NUMBER.search(joined)) and not (exponent and _HUGE.search(joined))


@dataclass(frozen=True, slots=True)
class Brackets:
    """The opening brackets of lines: their number, and their places in the joined lines if the lines are many."""

    count: int
    places: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, joined: bytes, lines: int) -> Brackets:
        """Find the opening brackets of so many lines."""
        if lines <= _FEW:
            return cls(joined.count(b"{") + joined.count(b"["))
        raw = np.frombuffer(joined, np.uint8)
        return cls.at([a + _opened(raw[a : a + _PIECE] | _CASE) for a in range(0, raw.size, _PIECE)])

    @classmethod
    def at(cls, places: list[NDArray[np.int64]]) -> Brackets:
        """Join the places of pieces."""
        joined = np.concatenate(places) if places else np.zeros(0, np.int64)
        return cls(joined.size, joined)

    def deep(self, lines: Sequence[bytes]) -> bool:
        """Return True if a line may exceed the nesting limit of documents.

        Lines are counted one by one only if some bracket and the bracket MAX_DEPTH after it fit into one line.
        """
        longest = max(map(len, lines))
        if self.count <= MAX_DEPTH + len(lines) or longest <= MAX_DEPTH:
            return False
        if self.places is not None and (self.places[MAX_DEPTH:] - self.places[:-MAX_DEPTH]).min() >= longest:
            return False
        return any(line.count(b"{") + line.count(b"[") > MAX_DEPTH for line in lines)


def _opened(lowered: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.flatnonzero(lowered == 0x7B)  # one bit is between [ and {


def _numbers(joined: bytes) -> tuple[bool, bool, Brackets]:
    """Return two flags: there may be a long number, and there may be a large exponent. Also return the brackets.

    These are much cheaper than the patterns. A number of _LONG digits has a digit at so many places of any _STEP. An
    exponent has a digit before its e, and digits two and three places after it.
    """
    raw = np.frombuffer(joined, np.uint8)
    exponent, places = False, list[NDArray[np.int64]]()
    for a in range(0, raw.size, _PIECE):
        piece = raw[a : a + _PIECE + _EXPONENT]
        lowered, digit = piece | _CASE, piece - 48 < 10
        places.append(a + _opened(lowered[:_PIECE]))
        exponent |= bool(((lowered[1:-3] == 0x65) & digit[:-4] & digit[3:-1] & digit[4:]).any())
    return _RUN in (raw[::_STEP] - 48 < 10).tobytes(), exponent, Brackets.at(places)


@dataclass(slots=True)
class TypedBlock:
    """The decoded documents of one block, with access to their fields."""

    docs: list[Any]
    types: dict[Path, frozenset[type]]  # of typed blocks: types that the decoder has checked
    get: Callable[[Path], Iterator[Any]]
    flat: bool = False  # documents are dicts without mutable values inside
    again: Callable[[], list[Any]] | None = None  # decodes them another time, which is cheaper than a copy

    def known(self, path: Path) -> frozenset[type]:
        return self.types.get(path, frozenset())

    def list(self, path: Path) -> list[Any]:
        return list(self.get(path))


def dict_getter(docs: Sequence[Any]) -> Callable[[Path], Iterator[Any]]:
    """Return a getter of fields of dicts, or of any objects with `get`."""
    return lambda path: iter(_values_of(docs, path))  # a closure that calls itself would be a cycle with the documents


def _values_of(docs: Sequence[Any], path: Path) -> list[Any]:
    if len(path) == 1:
        name = path[0]
        try:
            return [d[name] for d in docs]
        except KeyError:
            return [d.get(name) for d in docs]
    if not path:
        return list(docs)
    above = _values_of(docs, path[:-1])
    if set(map(type, above)) == {tuple} and is_part(path[-1]):
        part = int(path[-1])
        return [key[part] if part < len(key) else None for key in above]
    return [reach(value, path[-1:]) for value in above]


def field_block(fields: Mapping[str, list[Any]], n: int) -> TypedBlock:
    """Return the block of n documents whose values are given by field."""
    types = {(name,): frozenset(map(type, values)) for name, values in fields.items()}
    nulls: list[Any] = [None] * n

    def get(path: Path) -> Iterator[Any]:
        values = fields.get(path[0], nulls)
        return iter(values) if len(path) == 1 else iter([reach(value, path[1:]) for value in values])

    return TypedBlock(nulls, {path: known for path, known in types.items() if known in _TYPED}, get)


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
    """The struct decoders for a set of paths, with types as strict as the observed values allow.

    A map on the way to a field becomes a struct of its own. If other values were observed in its place, a struct of
    nulls replaces them: a path through them has no value.
    """

    def __init__(self, paths: Sequence[Path], seen: dict[Path, set[type]]) -> None:
        self.types: dict[Path, frozenset[type]] = {}
        self._steps: dict[Path, _Step] = {}
        self._whole: dict[Path, Path] = {}  # of paths that are read out of a value decoded whole
        self._seen = seen
        struct = self._struct((), paths)
        self.json = msgspec.json.Decoder(struct).decode
        self.msgpack = msgspec.msgpack.Decoder(struct, ext_hook=unpack_hook).decode

    def _struct(self, above: Path, paths: Sequence[Path]) -> Any:
        """Return the struct of the map at the path `above`, with the fields that `paths` need."""
        below: dict[str, list[Path]] = {}
        for path in paths:
            below.setdefault(path[len(above)], []).append(path)
        required: list[Any] = []
        optional: list[Any] = []
        for i, (name, own) in enumerate(below.items()):
            field = f"f{i}"
            kind, absent = self._field((*above, name), field, own)
            if absent:
                optional.append((field, kind, None))
            else:
                required.append((field, kind))
        rename = {f"f{i}": name for i, name in enumerate(below)}
        return msgspec.defstruct("Map", [*required, *optional], rename=rename, gc=False)

    def _field(self, path: Path, name: str, below: list[Path]) -> tuple[Any, bool]:
        """Return the type of a field, and if it may be absent."""
        types = frozenset(self._seen.get(path, ()))
        read = _column(name)
        if below == [path]:
            self._steps[path] = _Step(read)
            if types not in _TYPED:
                return Any, True
            self.types[path] = types
            return _TYPED[types], type(None) in types
        if path in below or not types <= _BESIDE_MAPS:
            self._steps[path] = _Step(read)
            self._whole.update(dict.fromkeys(below, path))
            return Any, True
        struct = self._struct(path, below)
        if types == {dict}:
            self._steps[path] = _Step(read)
            return struct, False
        self._steps[path] = _Step(read, struct, _nulls(struct))
        return struct | bool | int | float | str | list[Any] | None, True

    def block(self, docs: list[Any]) -> TypedBlock:
        columns: dict[Path, list[Any]] = {(): docs}

        def get(path: Path) -> Iterator[Any]:
            whole = self._whole.get(path)
            if whole is None:
                return iter(self._column(columns, path))
            return iter([reach(value, path[len(whole) :]) for value in self._column(columns, whole)])

        return TypedBlock(docs, self.types, get)

    def _column(self, columns: dict[Path, list[Any]], path: Path) -> list[Any]:
        """Return the values at a path. `columns` has those that were read before."""
        found = columns.get(path)
        if found is None:
            found = columns[path] = self._steps[path].column(self._column(columns, path[:-1]))
        return found


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a path: it reads a field of structs. `nulls` replaces values that are no maps, if some may occur."""

    read: ColumnOf
    struct: Any = None
    nulls: Any = None

    def column(self, above: list[Any]) -> list[Any]:
        values = self.read(above)
        if self.struct is None:
            return values
        return [value if type(value) is self.struct else self.nulls for value in values]


def _nulls(struct: Any) -> Any:
    """Return a struct without a value in any field."""
    return struct(*[None] * len(struct.__struct_fields__))
