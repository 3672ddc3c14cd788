"""A view's Python function over a block of documents: the one place that sees documents one by one.

What it yields goes back into columns. Invariants:

- a function is run once for a document, on a copy that is its own;
- a tuple that is yielded is (group, value), a tuple of another length an error; anything else is a group without value;
- what a function raises, or yields that can't be taken, holds its document for this view and no other;
- values are document values: what a function yields is normalised before it is remembered;
- maps in a row of the parent view have their names in order, however the parent view came to its result.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import Any

import numpy as np

from penstock.cache import (
    DefinitionError,
    canonical,
    encode_key,
    error_text,
    normalise,
    pack,
    unpack,
    value_text,
)
from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.maps.emissions import Emissions, sorted_pairs
from penstock.views import Cell, Need, Row, reach

BLOCK = 512
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = (int, float, Decimal)
_log = logging.getLogger("penstock.mapreduce")
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
        return cls(error_text(error), trace.encode(errors="replace").decode())


class FunctionMapper:
    """Runs one view's function; pure as far as the function is.

    With `counted` the view counts contributions and reads no value.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Iterable[Any] | None],
        cells: Sequence[Cell],
        counted: bool = False,
    ) -> None:
        self.name = name
        self._counted = counted
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
            values, counts, own = self._yielded(list(map(_ordered, docs[a : a + BLOCK])))
            part = None if own else self._columns(values, counts, groups)
            parts.append(self._one_by_one(values, counts, own, groups) if part is None else part)
            held.update((a + i, hold) for i, hold in own.items())
        out = Emissions.join(parts) if parts else Emissions.none(0)
        if self._counted and out.values is not None and out.values.all_kinds() - {LaneKind.NULL}:
            _warn_unread(self.name, self._function)
            self._counted = False
        return out, held

    def _yielded(self, docs: Sequence[Any]) -> tuple[list[Any], list[int] | None, dict[int, Hold]]:
        """What the function yields for all documents, how much each (None: one), and by index what it raises."""
        function: Callable[[Any], Any] = self._function
        held: dict[int, Hold] = {}
        if self._yields:
            return _one_each(_all(map(function, docs), held, ()), held)
        rows: list[list[Any]] = []
        left = iter(docs)
        while len(rows) < len(docs):
            try:
                rows.extend([*(function(doc) or ())] for doc in left)
            except Exception as error:
                held[len(rows)] = Hold.of(error)
                rows.append([])
        counts = list(map(len, rows))
        return list(chain.from_iterable(rows)), None if set(counts) == {1} else counts, held

    def _columns(self, flat: list[Any], counts: list[int] | None, groups: Groups) -> Emissions | None:
        """Whole columns; None where a document needs a closer look."""
        if counts is not None and max(counts) > 1:
            return None
        types = set(map(type, flat))
        column: Column | None = None
        keys: list[Any] = flat
        if types == {tuple}:
            if set(map(len, flat)) != {2}:
                return None
            keys, values = [pair[0] for pair in flat], [pair[1] for pair in flat]
            kinds = set(map(type, values))
            if not kinds <= _SCALARS or (str in kinds and not _is_text(values)):
                return None
            column = Column.of(values)
            if column.kind is not None:
                if bool((column.kind == LaneKind.BIG).any()):
                    return None  # its digits are to be counted
                if None in self._numbers and bool((column.kind == LaneKind.OTHER).any()):
                    return None
        elif any(issubclass(kind, tuple) for kind in types):
            return None
        codes = groups.codes(keys)
        if codes.size and int(codes.min()) < 0:
            return None
        return Emissions(None if counts is None else np.array(counts, np.int64), codes, column)

    def _one_by_one(
        self, flat: list[Any], counts: list[int] | None, held: dict[int, Hold], groups: Groups
    ) -> Emissions:
        """The same, document by document; what can't be taken is added to `held`."""
        parts: list[Emissions] = []
        left = iter(flat)
        for i, count in enumerate(repeat(1, len(flat)) if counts is None else counts):
            try:
                pairs = self._checked(list(islice(left, count)))
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
                        f"view {self.name!r} yielded {value_text(found)} where a reducer reads {what} as a number; "
                        "yield an int, a float, a Decimal or None"
                    )
            pairs.append((group, value))
        return sorted_pairs(pairs) if len(pairs) > 1 else pairs


@lru_cache(maxsize=256)  # once for a function, however often its store is opened
def _warn_unread(view: str, function: Callable[[Any], Any]) -> None:
    _log.warning(
        "view %r yields pairs (group, value), and ps.count() reads no value; "
        "to count by two parts yield ((a, b), None), and to count by the group alone yield (group, None)",
        view,
    )


class _End:
    """Stands for what a generator that has ended would yield."""


_END = _End()


def _all(each: Iterator[Any], held: dict[int, Hold], instead: Any) -> list[Any]:
    """All that comes, and `instead` of what is raised, which is added to `held`."""
    out: list[Any] = []
    while True:
        try:
            out.extend(each)  # keeps what it took before an exception
            return out
        except Exception as error:
            held[len(out)] = Hold.of(error)
            out.append(instead)


def _one_each(generators: list[Any], held: dict[int, Hold]) -> tuple[list[Any], list[int] | None, dict[int, Hold]]:
    """What generators yield, in few passes in C where each yields one value, as most do, or none."""
    generators = [iter(each) for each in generators] if held else generators
    first = _all(map(next, generators, repeat(_END)), held, _END)
    second = _all(map(next, generators, repeat(_END)), held, _END)
    if held or set(map(type, second)) != {_End}:
        return _several(generators, first, second, held)
    if _End not in set(map(type, first)):
        return first, None, held
    return [v for v in first if v is not _END], [int(v is not _END) for v in first], held


def _several(
    generators: list[Any], first: list[Any], second: list[Any], held: dict[int, Hold]
) -> tuple[list[Any], list[int] | None, dict[int, Hold]]:
    """The same where some yield more, or raised something and so yield nothing."""
    rows: list[list[Any]] = []
    for i, (one, two) in enumerate(zip(first, second, strict=True)):
        rows.append([] if one is _END or i in held else [one])
        if two is not _END and i not in held:
            try:
                rows[i] += [two, *generators[i]]
            except Exception as error:
                held[i] = Hold.of(error)
                rows[i] = []
    return list(chain.from_iterable(rows)), list(map(len, rows)), held


def _ordered(doc: Any) -> Any:
    """A copy of a view row in the one form of equal rows; a document of a table as it is."""
    if not isinstance(doc, Row):
        return doc
    return Row(doc.key, unpack(canonical(doc.value)) if isinstance(doc.value, dict | list) else doc.value)


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
