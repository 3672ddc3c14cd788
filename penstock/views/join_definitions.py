"""Define joins, whose rows combine documents of several sides with equal condition values.

Invariants:

- the definition is checked completely when it is made. Every refusal names the side at fault;
- `sides` have the order of the call, which is the order of a row's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.cache import DefinitionError
from penstock.views.definitions import Definitions, Source, Table, View
from penstock.views.field_expressions import Where
from penstock.views.name_form import nearest
from penstock.views.reducer_protocols import Path
from penstock.views.view_maps import FieldMap, Key

How = Literal["inner", "left", "full", "semi", "anti"]

LIMIT = 10_000_000
_FIRST_ONLY = ("semi", "anti")
_ROOTS = ("key", "value")
_DEEPEST = 90


@dataclass(frozen=True, slots=True)
class Side:
    """A named input of a join, with its filter."""

    name: str
    source: Source
    where: Where | None = None

    def describe(self) -> dict[str, object]:
        """Return the side as plain data."""
        where = None if self.where is None else self.where.describe()
        return {"side": self.name, "source": self.source.name, "where": where}


@dataclass(frozen=True, slots=True)
class JoinStep:
    """A side that is joined to the sides before it, and the pairs of paths that must be equal.

    The first path of a pair begins with the name of its side. The second is a path of the new side. Pairs that compare
    the whole key of a side have the order of its parts.
    """

    side: int
    pairs: tuple[tuple[Path, Path], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Join(Source):
    """Rows that combine documents of several sides, made by `App.join`.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    >>> sold = app.join("sold", order=orders, customer=customers, on={"order.customer_id": "customer.id"})
    >>> [side.name for side in sold.sides], sold.how
    (['order', 'customer'], 'inner')
    """

    sides: tuple[Side, ...]
    on: tuple[tuple[Path, Path], ...]
    how: How = "inner"
    filter: Where | None = None
    limit: int = LIMIT
    next: Join | None = None  # of a prefix: the join with one more side
    _prefix: list[Join] = field(default_factory=list, init=False, repr=False)

    @property
    def prefix(self) -> Join | None:
        """Return the join of all sides but the one that is connected last, if it has two or more.

        Its sides are in the order in which they are connected. It is no definition of the app.
        """
        if len(self.sides) > 2 and not self._prefix:
            first, steps = self.steps()
            sides = tuple(self.sides[i] for i in (first, *(step.side for step in steps[:-1])))
            names = [side.name for side in sides]
            on = tuple(pair for pair in self.on if pair[0][0] in names and pair[1][0] in names)
            name = f"{shown_join(self.name)}:{'+'.join(names)}"
            self._prefix.append(Join(self.app, name, self.order, sides, on, limit=self.limit, next=self))
        return self._prefix[0] if self._prefix else None

    @property
    def stages(self) -> tuple[Join, ...]:
        """Return the prefixes, the smallest first, and the join itself."""
        return (self,) if self.prefix is None else (*self.prefix.stages, self)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables below its sides, each once."""
        return tuple(dict.fromkeys(table for side in self.sides for table in side.source.tables))

    @property
    def rows(self) -> str:
        """Return a name for the join as the source of a view."""
        return f"join {self.name!r}"

    def shown_key(self, key: Any) -> Any:
        """Return the keys of a row's documents, without the condition values that also name the row."""
        own = zip(self.sides, key, strict=False)
        return tuple(None if part is None else side.source.shown_key(part) for side, part in own)

    def owner_of(self, key: Any) -> Any:
        """Return the condition value whose partition has a row; for a null one, the key of its document."""
        if key[-1] is not None:
            return key[-1]
        pairs = list(zip(self.sides, key, strict=False))
        side, own = next(((side, own) for side, own in pairs if own is not None), pairs[0])
        if isinstance(side.source, Join):
            return side.source.owner_of(own)
        return group_in_key(own) if self.nests_null(side) else own

    def nests_null(self, side: Side) -> bool:
        """Return True if the null group of a side is (null,) in the key of a row: null stands for a missing side.

        Both sides of a full join may be missing. In other joins one side alone may, so two rows never share a key.
        """
        return self.how == "full" and isinstance(side.source, View)

    @property
    def row_sides(self) -> tuple[Side, ...]:
        """Return the sides that a joined row has."""
        return self.sides[:1] if self.how in _FIRST_ONLY else self.sides

    def side(self, name: str) -> Side | None:
        """Return the side of this name, or None."""
        return next((side for side in self.sides if side.name == name), None)

    def steps(self) -> tuple[int, tuple[JoinStep, ...]]:
        """Return the number of the side that the chain begins with, and the steps that connect the others."""
        names = [side.name for side in self.sides]
        first = names.index(self.on[0][0][0])
        known, steps = [names[first]], list[JoinStep]()
        while (new := self._next(known)) is not None:
            pairs = [_oriented(pair, new) for pair in self.on if {p[0] for p in pair} <= {*known, new}]
            own = tuple((one, other[1:]) for one, other in pairs if other[0] == new and one[0] != new)
            sides = [self.sides[names.index(side)] for side in ((new,) if steps else (new, known[0]))]
            steps.append(JoinStep(names.index(new), _in_key_order(own, sides)))
            known.append(new)
        return first, tuple(steps)

    def _next(self, known: list[str]) -> str | None:
        """Return the side that the first entry with one connected side connects."""
        for one, other in self.on:
            new = [path[0] for path in (one, other) if path[0] not in known]
            if len(new) == 1:
                return new[0]
        return None

    def check_path(self, reader: str, path: Path, whole: bool = True) -> None:
        """Raise DefinitionError unless rows may have this path. `whole` allows a side without a field."""
        side = next((side for side in self.row_sides if side.name == path[0]), None)
        dotted = ".".join(path)
        if side is None and self.side(path[0]) is not None:
            raise DefinitionError(
                f"{reader} reads {dotted!r}, and rows of the {self.how} join {self.name!r} have no {path[0]!r}; "
                f"read {self.sides[0].name!r} alone, or use how='inner'"
            )
        if side is None:
            names = [side.name for side in self.row_sides]
            raise DefinitionError(
                f"{reader} reads {dotted!r} of the join {self.name!r}, whose sides are "
                f"{', '.join(map(repr, names))}; write the side first, such as {near_path(path, names)!r}"
            )
        if len(path) == 1:
            if not whole:
                raise DefinitionError(
                    f"{reader} names the whole of side {path[0]!r} of the join {self.name!r}; name a field of it, such "
                    f"as '{path[0]}.id'"
                )
            return
        check_side_path(reader, side, path[1:], whole)

    def check_view(self, view: str, fields: FieldMap, read: Iterable[Path]) -> None:
        """Raise DefinitionError if a view reads a path that rows don't have."""
        for path in fields.key.paths:
            self.check_path(f"view {view!r}", path, whole=False)
        for path in read:
            self.check_path(f"view {view!r}", path)

    def describe(self) -> dict[str, object]:
        """Return the join as plain data."""
        return {
            "kind": "join",
            "name": self.name,
            "sides": [side.describe() for side in self.sides],
            "on": [[list(one), list(other)] for one, other in self.on],
            "how": self.how,
            "where": None if self.filter is None else self.filter.describe(),
            "limit": self.limit,
        }


def key_of_group(group: Any) -> Any:
    """Return a group of a view as a part of the key of a row, in which null stands for a missing side.

    Beyond 90 levels a nested null stays as it is, because a key may not nest deeper than 100.

    >>> key_of_group("Oslo"), key_of_group(None), key_of_group((None,))
    ('Oslo', (None,), ((None,),))
    """
    return (group,) if _is_nested_null(group) else group


def group_in_key(part: Any) -> Any:
    """Return the group that `key_of_group` made this part of.

    >>> group_in_key("Oslo"), group_in_key((None,)), group_in_key(((None,),))
    ('Oslo', None, (None,))
    """
    return part[0] if isinstance(part, tuple) and _is_nested_null(part) else part


def _is_nested_null(group: Any) -> bool:
    for _ in range(_DEEPEST):
        if not isinstance(group, tuple) or len(group) != 1:
            return group is None
        (group,) = group
    return False


def shown_join(name: str) -> str:
    """Return the name of a join for users: of a prefix, that of the whole join."""
    return name.partition(":")[0]


def all_joins(app: Definitions) -> list[Join]:
    """Return the joins of an app, each after its prefixes."""
    return [stage for join in app.joins() if isinstance(join, Join) for stage in join.stages]


def rows_refused(join: Join) -> DefinitionError:
    """Return the error for a reader of the rows of a join, which stores none."""
    return DefinitionError(
        f"the join {join.name!r} keeps no rows; define a view on it that does, such as {join.name}.view("
        f"'{join.name}_rows', key='{'.'.join(join.on[0][0])}', reduce=None), and read that"
    )


def side_paths(join: Join, side: str) -> list[str]:
    """Return the paths of a side in the condition, each with the name of the side."""
    return [".".join(path) for pair in join.on for path in pair if path[0] == side]


def near_path(path: Path, names: Sequence[str]) -> str:
    """Return a path that begins with the most similar of these names of sides."""
    own = nearest(path[0], names) or names[0]
    return ".".join((own, *(path[1:] or path)))


def check_side_path(reader: str, side: Side, path: Path, whole: bool = True) -> None:
    """Raise DefinitionError unless the source of a side may have this path. `whole` allows a side without a field."""
    source, dotted = side.source, ".".join((side.name, *path))
    if isinstance(source, Join):
        source.check_path(f"{reader}, in side {side.name!r},", path, whole)
    if not isinstance(source, View):
        return
    root, *names = path
    if root not in _ROOTS:
        raise DefinitionError(
            f"{reader} reads {dotted!r}, and side {side.name!r} is the view {source.name!r}, whose rows have a key and "
            f"a value; write '{side.name}.key', '{side.name}.value', or '{side.name}.value.{'.'.join(path)}'"
        )
    if root == "key" and names:
        raise DefinitionError(
            f"{reader} reads {dotted!r}, and a key of the view {source.name!r} has no fields; write '{side.name}.key'"
        )
    if root == "value" and names and source.fields and names[0] not in source.fields:
        near = nearest(names[0], source.fields) or source.fields[0]
        raise DefinitionError(
            f"{reader} reads {dotted!r}, and the view {source.name!r} of side {side.name!r} has the fields "
            f"{', '.join(source.fields)}; did you mean '{side.name}.value.{near}'?"
        )


def _oriented(pair: tuple[Path, Path], new: str) -> tuple[Path, Path]:
    """Return a pair with the path of this side last."""
    one, other = pair
    return (other, one) if one[0] == new else (one, other)


def key_of(side: Side) -> Key | None:
    """Return the whole key of the source of a side, if its documents can be looked up by it."""
    if isinstance(side.source, View):
        return Key((("key",),), True)
    return side.source.key if isinstance(side.source, Table) else None


def _in_key_order(pairs: Sequence[tuple[Path, Path]], sides: Sequence[Side]) -> tuple[tuple[Path, Path], ...]:
    """Return pairs of paths in the order of a whole key, if one of these sides has all of it, else as they are.

    A path in a pair has its side first; the second one of a step has none.
    """
    for side in sides:
        key = key_of(side)
        own = {one[1:] if one[0] == side.name else other: (one, other) for one, other in pairs}
        if key is not None and len(own) == len(pairs) and set(own) == set(key.paths):
            return tuple(own[path] for path in key.paths)
    return tuple(pairs)
