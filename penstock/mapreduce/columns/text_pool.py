"""Texts that many values share: each distinct text once, with a number.

A column of pooled texts has a number for each value. So a selection copies numbers, and a group code or a comparison
is found once for each distinct text. Invariant: a number keeps its text for as long as the pool exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.group_codes import Codes, Groups

__all__ = ["PooledTexts", "TextPool"]

Numbers = NDArray[np.int64]
_NONE = -1
_UNKNOWN = -9  # no group code, and no mark of one
_TABLES = 8  # most dictionaries of groups whose codes a pool keeps


class TextPool:
    """Distinct texts by number."""

    __slots__ = ("_codes", "_numbers", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._codes: list[tuple[Groups, Codes]] = []

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """Return the number of a text, which it gets if it has none."""
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def numbers(self, texts: list[str]) -> Numbers:
        """Return the numbers of texts, which they get if they have none."""
        out = self.find(texts)
        for i in (out == _NONE).nonzero()[0].tolist():
            out[i] = self.number(texts[i])
        return out

    def find(self, values: Sequence[Any]) -> Numbers:
        """Return the number of each value, or -1 if it is none of these texts."""
        get = self._numbers.get
        try:
            found = list(map(get, values))
        except TypeError:  # a list or a map can't be looked up
            found = [get(value) if type(value) is str else None for value in values]
        return np.fromiter([_NONE if number is None else number for number in found], np.int64, len(values))

    def codes(self, groups: Groups, numbers: Numbers) -> Codes:
        """Return the group codes of the texts with these numbers."""
        place = next((i for i, (own, _) in enumerate(self._codes) if own is groups), None)
        _, table = (groups, np.zeros(0, np.int32)) if place is None else self._codes.pop(place)
        if table.size < len(self.texts):
            table = np.concatenate([table, np.full(len(self.texts) - table.size, _UNKNOWN, np.int32)])
        out = table[numbers]
        unknown = np.unique(numbers[out == _UNKNOWN])
        if unknown.size:
            table[unknown] = groups.codes([self.texts[number] for number in unknown.tolist()])
            out = table[numbers]
        self._codes = [(groups, table), *self._codes[: _TABLES - 1]]
        return out


@dataclass(slots=True, eq=False)
class PooledTexts(Mapping[int, Any]):
    """The values of a column that have no lane, by row: texts of a pool, and other values beside them."""

    pool: TextPool
    number: Numbers  # of each row; -1 for a row without a text of the pool
    beside: dict[int, Any] = field(default_factory=dict)

    def __getitem__(self, row: int) -> Any:
        number = self.number.item(row) if 0 <= row < self.number.size else _NONE
        return self.beside[row] if number < 0 else self.pool.texts[number]

    def __iter__(self) -> Iterator[int]:
        yield from (self.number >= 0).nonzero()[0].tolist()
        yield from self.beside

    def __len__(self) -> int:
        return int(np.count_nonzero(self.number >= 0)) + len(self.beside)

    @property
    def whole(self) -> bool:
        """Return True if each row has a text of the pool."""
        return not self.beside and bool((self.number >= 0).all())

    def listed(self) -> list[str]:
        """Return the texts of all rows, which have one each."""
        return list(map(self.pool.texts.__getitem__, self.number.tolist()))

    def take(self, at: NDArray[Any]) -> PooledTexts:
        """Return those of the rows at these indexes."""
        beside = {row: self.beside[i] for row, i in enumerate(at.tolist()) if i in self.beside} if self.beside else {}
        return PooledTexts(self.pool, self.number[at], beside)

    @staticmethod
    def join(parts: Sequence[Mapping[int, Any]], sizes: Sequence[int]) -> Mapping[int, Any]:
        """Concatenate the values without a lane of columns of these sizes."""
        pooled = [part for part in parts if type(part) is PooledTexts and not part.beside]
        if len(pooled) == len(parts) and all(part.pool is pooled[0].pool for part in pooled):
            return PooledTexts(pooled[0].pool, np.concatenate([part.number for part in pooled]))
        out: dict[int, Any] = {}
        at = 0
        for part, size in zip(parts, sizes, strict=True):
            out.update(zip([at + i for i in part], part.values(), strict=True) if at else part)
            at += size
        return out
