"""Contributions in readable form: the emitted value, or a map of only the fields that reducers read.

Invariant: a reducer has the same result over these values as over the original ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.mapreduce.columns.column import Column
from penstock.views import TS, Path, filtered_of


class ContributionShape:
    """The readable form of a view's contributions, from some of their fields. The field None is the whole value.

    >>> ContributionShape([("amount",), ("org", "name"), ("org", "size")]).of([5, "x", None])
    {'amount': 5, 'org': {'name': 'x', 'size': None}}
    >>> ContributionShape([("amount",), None]).of([5, {"amount": 5, "day": 1}]), ContributionShape([]).of([])
    ({'amount': 5, 'day': 1}, None)

    A filtered field stands under its text, unless the plain fields from which it follows are there.
    """

    def __init__(self, fields: Sequence[Path | None]) -> None:
        self._whole = fields.index(None) if None in fields else None
        named: dict[int, Path] = {i: path for i, path in enumerate(fields) if path is not None and path != TS}
        self._filtered = {i: own for i, path in named.items() if (own := filtered_of(path)) is not None}
        plain = set(fields)
        for i, own in self._filtered.items():
            if plain.issuperset(own.fields):
                del named[i]  # it follows from the others
            else:
                named[i] = (str(own),)
        read = sorted((len(path), i, path) for i, path in named.items())
        self._paths = [
            (i, path, [j for _, j, above in read if above == path[: len(above)] and j != i]) for _, i, path in read
        ]
        self._flat = all(len(path) == 1 for _, path, _ in self._paths)

    def of(self, values: Sequence[Any]) -> Any:
        """Return the value of a contribution with these fields."""
        if self._whole is not None:
            return values[self._whole]
        if not self._paths:
            return None
        if self._filtered:
            values = [
                self._filtered[i].shown(value) if i in self._filtered else value for i, value in enumerate(values)
            ]
        if self._flat:
            return {path[0]: values[i] for i, path, _ in self._paths}
        out: dict[str, Any] = {}
        for i, path, above in self._paths:
            if above and (values[i] is None or any(isinstance(values[j], dict) for j in above)):
                continue  # the value above contains it, or its null implies this null
            inner = out
            for name in path[:-1]:
                found = inner.get(name)
                if not isinstance(found, dict):
                    found = inner[name] = {}
                inner = found
            inner[path[-1]] = values[i]
        return out

    def of_columns(self, columns: Sequence[Column], n: int) -> list[Any]:
        """Return the values of n contributions from columns of their fields."""
        if self._whole is not None:
            return columns[self._whole].values()
        if not self._paths:
            return [None] * n
        return [self.of(row) for row in zip(*(column.values() for column in columns), strict=True)]
