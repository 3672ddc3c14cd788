"""A view's Python function over a block of documents: the one place that sees documents one by one.

What it yields goes back into columns. Invariants:

- a function is run once for a document, on a copy that is its own;
- a tuple that is yielded is (group, value), a tuple of another length an error; anything else is a group without value;
- what a function raises, or yields that can't be taken, holds its document for this view and no other;
- values are document values: what a function yields is normalised before it is remembered.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from penstock.cache import (
    DefinitionError,
    encode_key,
    normalise,
    pack,
    said,
    shown,
    unpack,
)
from penstock.mapreduce.column import Column, Kind
from penstock.mapreduce.emission import Emissions, sorted_pairs
from penstock.mapreduce.groups import Groups
from penstock.views import Cell, Need, reach

BLOCK = 512
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = (int, float, Decimal)
_TRACE = 20_000  # characters of a traceback that are kept, the last ones


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a document can't be taken for a view."""

    reason: str
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Hold:
        """The hold for what was raised."""
        trace = "".join(traceback.format_exception(error))[-_TRACE:]
        return cls(said(error), trace.encode(errors="replace").decode())


class FunctionMapper:
    """Runs one view's function; pure as far as the function is."""

    def __init__(self, name: str, function: Callable[[Any], Iterable[Any] | None], cells: Sequence[Cell]) -> None:
        self.name = name
        self._function = function
        self._yields = inspect.isgeneratorfunction(function)
        self._numbers = tuple(dict.fromkeys(c.field for c in cells if c.need is Need.NUMBER))

    def run(self, docs: Sequence[Any], groups: Groups) -> tuple[Emissions, dict[int, Hold]]:
        """The emissions of these documents, and by index why some are held (those yield nothing here).

        The function sees each document once, and may spoil it: nobody else should hold it.
        """
        parts: list[Emissions] = []
        held: dict[int, Hold] = {}
        for a in range(0, len(docs), BLOCK):
            yielded, own = self._yielded(docs[a : a + BLOCK])
            part = None if own else self._columns(yielded, groups)
            parts.append(self._one_by_one(yielded, own, groups) if part is None else part)
            held.update((a + i, hold) for i, hold in own.items())
        return (Emissions.join(parts) if parts else Emissions.none(0)), held

    def _yielded(self, docs: Sequence[Any]) -> tuple[list[list[Any]], dict[int, Hold]]:
        """What the function yields for each document, and by index what it raises."""
        function: Callable[[Any], Any] = self._function
        whole = self._yields
        out: list[list[Any]] = []
        held: dict[int, Hold] = {}
        left = iter(docs)
        while True:
            try:
                # extend keeps what it took before an exception; C loops where no None can come
                out.extend(map(list, map(function, left)) if whole else ([*(function(doc) or ())] for doc in left))
                return out, held
            except Exception as error:
                held[len(out)] = Hold.of(error)
                out.append([])

    def _columns(self, yielded: list[list[Any]], groups: Groups) -> Emissions | None:
        """Whole columns; None where a document needs a closer look."""
        counts = None
        if set(map(len, yielded)) != {1}:
            if max(map(len, yielded)) > 1:
                return None
            counts = np.fromiter(map(len, yielded), np.int64, len(yielded))
        flat = list(chain.from_iterable(yielded))
        types = set(map(type, flat))
        column: Column | None = None
        keys: list[Any] = flat
        if types == {tuple}:
            if set(map(len, flat)) != {2}:
                return None
            both = list(zip(*flat, strict=True))
            keys, values = list(both[0]), list(both[1])
            kinds = set(map(type, values))
            if not kinds <= _SCALARS or (str in kinds and not _is_text(values)):
                return None
            column = Column.of(values)
            if None in self._numbers and column.kind is not None and bool((column.kind == Kind.OTHER).any()):
                return None
        elif any(issubclass(kind, tuple) for kind in types):
            return None
        codes = groups.codes(keys)
        if codes.size and int(codes.min()) < 0:
            return None
        return Emissions(counts, codes, column)

    def _one_by_one(self, yielded: list[list[Any]], held: dict[int, Hold], groups: Groups) -> Emissions:
        """The same, document by document; what can't be taken is added to `held`."""
        parts: list[Emissions] = []
        for i, row in enumerate(yielded):
            try:
                pairs = self._checked(row)
                code = np.fromiter((groups.code(g) for g, _ in pairs), np.int32, len(pairs))
                parts.append(Emissions(np.array([len(pairs)]), code, Column.of([v for _, v in pairs])))
            except Exception as error:
                held[i] = Hold.of(error)
                parts.append(Emissions.none(1))
        return Emissions.join(parts)

    def _checked(self, row: list[Any]) -> list[tuple[Any, Any]]:
        """The (group, value) pairs of one document, in their one order."""
        pairs: list[tuple[Any, Any]] = []
        for item in row:
            if isinstance(item, tuple):
                if len(item) != 2:
                    raise DefinitionError(
                        f"view {self.name!r} yielded a tuple of {len(item)}; yield a group or (group, value), "
                        "and a tuple as a group as ((a, b), value)"
                    )
                group, value = item[0], normalise(item[1])
            else:
                group, value = item, None
            encode_key(group)
            for field in self._numbers:
                found = value if field is None else reach(value, field)
                if not _is_number(found):
                    what = "its value" if field is None else repr(".".join(field))
                    raise DefinitionError(
                        f"view {self.name!r} yielded {shown(found)} where a reducer reads {what} as a number; "
                        "yield an int, a float, a Decimal or None"
                    )
            pairs.append((group, value))
        return sorted_pairs(pairs) if len(pairs) > 1 else pairs


def copies(docs: Sequence[Any], flat: bool = False) -> list[Any]:
    """Documents that share nothing with these that could be changed; `flat` where they hold no such thing."""
    return list(map(dict.copy, docs)) if flat else list(map(copied, docs))


def copied(value: Any) -> Any:
    """A document value that shares nothing with this one that could be changed."""
    return unpack(pack(value)) if isinstance(value, dict | list) else value


def _is_number(value: Any) -> bool:
    return value is None or type(value) in _NUMBERS


def _is_text(values: Sequence[Any]) -> bool:
    """Whether all text among these values is whole, without half of a surrogate pair."""
    try:
        "".join([v for v in values if type(v) is str]).encode()
    except UnicodeEncodeError:
        return False
    return True
