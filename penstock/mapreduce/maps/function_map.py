"""The Python function of a view, run on a block of documents. Only this module calls it document by document.

Its results go back into columns. Invariants:

- a function runs once for a document, on its own copy;
- a yielded tuple must be (group, value); another length is an error. Any other item is a group without a value;
- an exception, or an invalid result, holds the document for this view only;
- yielded values are normalised to document values before they are remembered;
- maps in a parent row have sorted names, so that equal parent rows give equal documents.
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
from penstock.mapreduce.maps.emissions import Emissions, sorted_emissions, sorted_pairs
from penstock.views import Cell, FieldForm, Need, Path, Row, filtered_of, plain_fields, reach, read_fields

BLOCK = 512
_FEW = 8  # up to this many contributions, sorting each document is faster than NumPy's fixed cost
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = (int, float, Decimal)
_log = logging.getLogger("penstock.mapreduce")
_TRACE = 20_000  # characters of a traceback that are kept, the last ones


@dataclass(frozen=True, slots=True)
class Hold:
    """The reason why a view cannot accept a document."""

    reason: str
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Hold:
        """Make the hold for an exception."""
        trace = "".join(traceback.format_exception(error))[-_TRACE:]
        return cls(error_text(error), trace.encode(errors="replace").decode())


class FunctionMapper:
    """The map of a function view; pure if the function is.

    With `counted` the view counts contributions and reads no value. On `joined` rows one document can be behind very
    many failures. So the holds of a run keep one traceback for each reason.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Iterable[Any] | None],
        cells: Sequence[Cell],
        counted: bool = False,
        joined: bool = False,
    ) -> None:
        self.name = name
        self._counted = counted
        self._joined = joined
        self._function = function
        self._yields = inspect.isgeneratorfunction(function)
        self._numbers = tuple(dict.fromkeys(c.field for c in cells if c.need is Need.NUMBER))
        self._scalars = tuple(field for field in self._numbers if None in plain_fields(field))

    def run(self, docs: Sequence[Any], groups: Groups) -> tuple[Emissions, dict[int, Hold]]:
        """Return the emissions of these documents, and by index the holds. Held documents yield nothing here.

        The function runs once per document and may modify it, so the caller must not use the documents afterwards.
        """
        parts: list[Emissions] = []
        held: dict[int, Hold] = {}
        traced: set[str] = set()  # reasons
        for a in range(0, len(docs), BLOCK):
            values, counts, own = self._yielded(list(map(_ordered, docs[a : a + BLOCK])))
            part = None if own else self._columns(values, counts, groups)
            parts.append(self._one_by_one(values, counts, own, groups) if part is None else part)
            for i, hold in own.items():
                held[a + i] = Hold(hold.reason) if self._joined and hold.reason in traced else hold
                traced.add(hold.reason)
        out = Emissions.join(parts) if parts else Emissions.none(0)
        if self._counted and out.values is not None and out.values.all_kinds() - {LaneKind.NULL}:
            _warn_unread(self.name, self._function)
            self._counted = False
        return out, held

    def _yielded(self, docs: Sequence[Any]) -> tuple[list[Any], list[int] | None, dict[int, Hold]]:
        """Return the values that the function yields, the count per document (None: one), and the holds by index."""
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
        """Convert values to columns as a whole; None if a document needs a check of its own."""
        several = counts is not None and max(counts) > 1
        if several and len(flat) <= _FEW:
            return None
        types = set(map(type, flat))
        column: Column | None = None
        keys: list[Any] = flat
        if any(issubclass(kind, tuple) for kind in types - {tuple}):
            return None
        if tuple in types:
            pairs = flat if len(types) == 1 else [item if type(item) is tuple else (item, None) for item in flat]
            if set(map(len, pairs)) != {2}:
                return None
            keys, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            kinds = set(map(type, values))
            if not kinds <= _SCALARS or (str in kinds and not _is_text(values)):
                return None
            column = Column.of(values)
            if column.kind is not None and bool((column.kind == LaneKind.BIG).any()):
                return None  # its digits are to be counted
            if any(_is_wrong(column, field) for field in self._scalars):
                return None
        codes = groups.ordered_codes(keys) if several else groups.codes(keys)
        if codes.size and int(codes.min()) < 0:
            return None
        if counts is None:
            return Emissions(None, codes, column)
        out = Emissions(np.array(counts, np.int64), codes, column)
        return sorted_emissions(out, groups) if several else out

    def _one_by_one(
        self, flat: list[Any], counts: list[int] | None, held: dict[int, Hold], groups: Groups
    ) -> Emissions:
        """Convert values to columns document by document; add invalid ones to `held`."""
        codes: list[int] = []
        values: list[Any] = []
        accepted: list[int] = []  # the number of pairs by document
        left = iter(flat)
        for i, count in enumerate(repeat(1, len(flat)) if counts is None else counts):
            try:
                pairs = self._checked(list(islice(left, count)))
                own = [groups.code(group) for group, _ in pairs]
            except Exception as error:
                held[i] = Hold.of(error)
                own, pairs = [], []
            accepted.append(len(own))
            codes += own
            values += [value for _, value in pairs]
        if not codes:
            return Emissions.none(len(accepted))
        return Emissions(np.array(accepted, np.int64), np.array(codes, np.int32), Column.of(values))

    def _checked(self, row: list[Any]) -> list[tuple[Any, Any]]:
        """Return the (group, value) pairs of one document in canonical order."""
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
                found = read_fields([value], field)[0]
                if not _is_number(found):
                    raise self._refused(value, field, found)
            pairs.append((group, value))
        return sorted_pairs(pairs) if len(pairs) > 1 else pairs

    def _refused(self, value: Any, field: Path | None, found: Any) -> DefinitionError:
        own = filtered_of(field)
        plain, kind, wanted = field, "number", "an int, a float, a Decimal or None"
        if own is not None:
            plain, found = own.field, reach(value, own.field or ())
            if own.form is FieldForm.FLAG:
                kind, wanted = "bool", "True, False or None"
        read = "its value" if plain is None else repr(".".join(plain))
        return DefinitionError(
            f"view {self.name!r} yielded {value_text(found)} where a reducer reads {read} as a {kind}; yield {wanted}"
        )


def _is_wrong(column: Column, field: Path | None) -> bool:
    """Return True if a value is no number, in the form in which a cell reads it."""
    own = column if field is None else Column.of(read_fields(column.values(), field))
    return own.kind is not None and bool((own.kind == LaneKind.OTHER).any())


@lru_cache(maxsize=256)  # once for a function, over all openings of its store
def _warn_unread(view: str, function: Callable[[Any], Any]) -> None:
    _log.warning(
        "view %r yields pairs (group, value), and ps.count() reads no value; "
        "to count by two parts yield ((a, b), None), and to count by the group alone yield (group, None)",
        view,
    )


class _End:
    """A marker for the end of a generator."""


_END = _End()


def _all(each: Iterator[Any], held: dict[int, Hold], instead: Any) -> list[Any]:
    """Return all items; for an exception add its hold to `held` and `instead` to the items."""
    out: list[Any] = []
    while True:
        try:
            out.extend(each)  # keeps the items before an exception
            return out
        except Exception as error:
            held[len(out)] = Hold.of(error)
            out.append(instead)


def _one_each(generators: list[Any], held: dict[int, Hold]) -> tuple[list[Any], list[int] | None, dict[int, Hold]]:
    """Collect from generators in a few passes in C, if each yields at most one value."""
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
    """Collect from generators if some yield more values or raise. One that raises yields nothing."""
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
    """Copy a view row in canonical form; return a document of a table unchanged."""
    if not isinstance(doc, Row) or not isinstance(doc.value, dict | list):
        return doc
    return Row(doc.key, unpack(canonical(doc.value)))


def copies(docs: Sequence[Any], flat: bool = False) -> list[Any]:
    """Copy documents; `flat` if they contain no lists or maps."""
    return list(map(dict.copy, docs)) if flat else list(map(copied, docs))


def copied(value: Any) -> Any:
    """Copy a document value if it is mutable."""
    return unpack(pack(value)) if isinstance(value, dict | list) else value


def _is_number(value: Any) -> bool:
    return value is None or type(value) in _NUMBERS


def _is_text(values: Sequence[Any]) -> bool:
    """Return True if no text among these values contains half of a surrogate pair."""
    try:
        "".join([v for v in values if type(v) is str]).encode()
    except UnicodeEncodeError:
        return False
    return True
