"""Check the arguments of `App.join`, and the joins that an operation can keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cache import DefinitionError, key_text
from penstock.views.definitions import Definitions, FilteredSource, Source, View
from penstock.views.delivery_modes import DeliveryMode
from penstock.views.document_paths import parse_path
from penstock.views.field_expressions import as_where
from penstock.views.join_definitions import How, Join, Side, check_side_path, near_path
from penstock.views.name_form import check_name, nearest
from penstock.views.reducer_protocols import Path
from penstock.views.stream_definitions import Stream

Conditions = Mapping[str, str] | Sequence[tuple[str, str]]

_HOW: tuple[How, ...] = ("inner", "left", "full", "semi", "anti")
_LAST = (1 << 63) - 1
_OPTIONS = ("name", "on", "how", "where", "limit", "production")


def make_join(
    app: Definitions,
    name: object,
    sides: Mapping[str, object],
    on: object,
    how: object,
    where: object,
    limit: object,
    production: object,
) -> Join:
    """Check the arguments of `App.join`, and return the join."""
    given = dict(zip(_OPTIONS, (name, on, how, where, limit, production), strict=True))
    for option, value in given.items():
        if option in sides or isinstance(value, Source | FilteredSource):
            raise DefinitionError(
                f"{option!r} is an option of join(), and can't name a side; give this side another name"
            )
    check_name("join", name)
    assert isinstance(name, str), "checked"
    what = f"join {name!r}"
    own = tuple(_side(app, what, side, given) for side, given in sides.items())
    if len(own) < 2:
        raise DefinitionError(
            f"{what} has {len(own) or 'no'} side{'' if len(own) == 1 else 's'}; name two or more, "
            "such as order=orders, customer=customers"
        )
    kind = _how(what, how, own)
    if limit is None or isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _LAST:
        raise DefinitionError(
            f"limit= of {what} is {key_text(limit)}; write the greatest number of rows of one condition value, from 1 "
            f"to {_LAST:,}"
        )
    if production not in (DeliveryMode.STRONG, DeliveryMode.STRONG.value):
        raise DefinitionError(
            f"production= of {what} is {key_text(production)}; joins and the views on them are always 'strong', so "
            "leave it out"
        )
    made = Join(app, name, app.size, own, _pairs(what, own, on), kind, None, limit)
    connected = {own[made.steps()[0]].name, *(own[step.side].name for step in made.steps()[1])}
    alone = [side.name for side in own if side.name not in connected]
    if alone:
        raise _unconnected(what, own[0].name, alone)
    if where is None:
        return made
    condition = as_where(where, f"where= of {what}")
    for path in condition.paths():
        made.check_path(f"where= of {what}", path)
    return Join(app, name, app.size, own, made.on, kind, condition, limit)


def _unconnected(what: str, first: str, alone: Sequence[str]) -> DefinitionError:
    sides = f"side{'' if len(alone) == 1 else 's'} {', '.join(map(repr, alone))}"
    return DefinitionError(
        f"no condition connects {sides} of {what} with {first!r}; add an entry to on=, such as "
        f"'{first}.{alone[0]}_id': '{alone[0]}.id'"
    )


def _side(app: Definitions, what: str, name: str, given: object) -> Side:
    if "." in name or ":" in name:
        raise DefinitionError(f"{what} has a side named {name!r}; name it without '.' and ':', which separate paths")
    check_name("side", name)
    source, where = (given.source, given.condition) if isinstance(given, FilteredSource) else (given, None)
    if not isinstance(source, Source):
        near = nearest(name, _OPTIONS)
        meant = "" if near is None else f"; or did you mean the option {near}=?"
        raise DefinitionError(
            f"side {name!r} of {what} is {key_text(given)}; give a table, a view or a join of this app{meant}"
        )
    if isinstance(source, Stream):
        raise DefinitionError(
            f"side {name!r} of {what} is the stream {source.name!r}, which has no documents; join a table, or a "
            "view on the stream"
        )
    if source.app is not app:
        raise DefinitionError(
            f"side {name!r} of {what} is {source.name!r} of the app {source.app.name!r}; define it in {app.name!r}"
        )
    if isinstance(source, View) and source.index:
        raise DefinitionError(
            f"side {name!r} of {what} is the plain index {source.name!r}; join {source.source.name!r} itself, or give "
            "the view a reducer"
        )
    side = Side(name, source, where)
    for path in () if where is None else where.paths():
        check_side_path(f"where= of side {name!r}", side, path)
    return side


def _how(what: str, how: object, sides: Sequence[Side]) -> How:
    if how == "right":
        raise DefinitionError(
            f"how= of {what} is 'right'; write how='left' and name {sides[-1].name!r} before {sides[0].name!r}"
        )
    for known in _HOW:
        if how == known:
            if known != "inner" and len(sides) > 2:
                raise DefinitionError(
                    f"{what} has how={known!r} and {len(sides)} sides; make a join of two of them, and a join of that "
                    f"with {sides[-1].name!r}"
                )
            return known
    raise DefinitionError(f"how= of {what} is {key_text(how)}; write one of {', '.join(map(repr, _HOW))}")


def _pairs(what: str, sides: Sequence[Side], on: object) -> tuple[tuple[Path, Path], ...]:
    """Return the pairs of paths of `on`, each path with its side first."""
    example = f"on={{'{sides[0].name}.{sides[1].name}_id': '{sides[1].name}.id'}}"
    if on is None or on == {} or on == [] or on == ():
        raise _unconnected(what, sides[0].name, [side.name for side in sides[1:]])
    given = list(on.items()) if isinstance(on, Mapping) else on
    if not isinstance(given, list | tuple):
        raise DefinitionError(
            f"on= of {what} is {key_text(on)}; map paths of sides to paths of other sides, such as {example}"
        )
    out: list[tuple[Path, Path]] = []
    for pair in given:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise DefinitionError(f"on= of {what} has {key_text(pair)}; write pairs of paths, such as {example}")
        one, other = (_path(what, sides, text) for text in pair)
        if one[0] == other[0]:
            raise DefinitionError(
                f"on= of {what} compares two paths of side {one[0]!r}; compare it with another side, or filter it by "
                f".where(…)"
            )
        if (one, other) not in out and (other, one) not in out:
            out.append((one, other))
    return tuple(out)


def _path(what: str, sides: Sequence[Side], text: object) -> Path:
    path = parse_path(text, f"a path in on= of {what}")
    side = next((side for side in sides if side.name == path[0]), None)
    if side is None:
        names = [side.name for side in sides]
        raise DefinitionError(
            f"on= of {what} has {text!r}, and {path[0]!r} is no side; its sides are {', '.join(map(repr, names))}, so "
            f"write {near_path(path, names)!r}"
        )
    if len(path) == 1:
        raise DefinitionError(f"on= of {what} names side {path[0]!r} without a field; write '{path[0]}.id', say")
    check_side_path(f"on= of {what}", side, path[1:], whole=False)
    return path


def check_together(joins: Sequence[Join], tables: Sequence[str]) -> None:
    """Raise DefinitionError if a refill of these tables leaves out others that joins combine with them."""
    wanted, reason = dict.fromkeys(tables), ""
    grown = True
    while grown:
        grown = False
        for join in joins:
            names = dict.fromkeys(table.name for table in join.tables)
            left = [name for name in names if name not in wanted]
            if left and len(left) < len(names):
                side = next(own for own in join.sides if left[0] in {table.name for table in own.source.tables})
                reason = reason or f"side {side.name!r} of the join {join.name!r} is read from {left[0]!r}"
                wanted.update(dict.fromkeys(left))
                grown = True
    others = [name for name in wanted if name not in tables]
    if others:
        raise DefinitionError(
            f"a refill takes all tables of a join together, and {reason}; give {', '.join(map(repr, others))} too"
        )
