"""Reducers that fold no values, because views know reducers only as protocols. Helpers for refusals and names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from penstock.cache import DefinitionError
from penstock.views.reducer_protocols import Cell, GroupTotals, Locals, Need, Path, SideTotals, State, Values


@dataclass(frozen=True)
class OneCell:
    """A cell that needs a value and adds up none."""

    field: Path | None
    need: Need = Need.VALUE
    lanes: int = 0

    def batch(self, loc: Locals, m: int, column: Values) -> SideTotals:
        raise NotImplementedError

    def update(self, old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
        return GroupTotals(np.zeros((0, plus.m), np.int64))


@dataclass(frozen=True)
class Fold:
    """A reducer with this name and field."""

    name: str
    field: Path | None = None
    cells: Sequence[Cell] = ()

    def result(self, n: int, states: Sequence[State]) -> Any:
        return n

    def describe(self) -> dict[str, object]:
        return {"reducer": self.name, "field": self.field and list(self.field)}


def count() -> Fold:
    return Fold("count")


def total(field: str | None = None) -> Fold:
    path = None if field is None else tuple(field.split("."))
    return Fold("total", path, (OneCell(path),))


def refused(*parts: str) -> Any:
    """Expect a DefinitionError with all of these texts in its message."""
    return pytest.raises(DefinitionError, match="(?s)" + "".join(f"(?=.*{part})" for part in parts))


def named(value: object) -> str:
    """Return the name of a test for a value, the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
