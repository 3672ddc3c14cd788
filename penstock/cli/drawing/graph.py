"""The graph of tables and views as text: a line per definition, in the order of their dependencies.

Each view has one source. So the graph is a forest, and its roots are the tables and joins. A join names its sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cli.json_values import dumps
from penstock.views import (
    App,
    Definition,
    FieldMap,
    Join,
    Path,
    ReduceFunction,
    Reducer,
    Side,
    Table,
    View,
    condition_text,
    is_accumulator,
)

_OPTIONS = ("n", "by", "shares", "nulls", "distinct")


@dataclass(frozen=True, slots=True)
class Node:
    """A definition, its depth below its table or join, and the views on it."""

    definition: Definition
    depth: int
    children: tuple[Node, ...]

    def all(self) -> Iterator[Node]:
        """Yield this node and all nodes below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.all()


def forest(app: App, only: Definition | None = None) -> list[Node]:
    """Return the tables and joins with their views. With `only`: that definition, its sources, and all on it."""
    wanted = None if only is None else {*_sources(only), *_above(app, only)}

    def node(definition: Definition, depth: int) -> Node:
        views = [v for v in app.views() if v.source is definition and (wanted is None or v in wanted)]
        return Node(definition, depth, tuple(node(view, depth + 1) for view in views))

    out = [node(table, 0) for table in app.tables() if wanted is None or table in wanted]
    depths = {below.definition.name: below.depth for root in out for below in root.all()}
    for join in app.joins():
        if wanted is None or join in wanted:
            out.append(node(join, 1 + max(depths.get(side.source.name, 0) for side in join.sides)))
            depths |= {below.definition.name: below.depth for below in out[-1].all()}
    return out


def _sources(definition: Definition) -> Iterator[Definition]:
    yield definition
    if isinstance(definition, View):
        source = definition.source
        assert isinstance(source, Table | View | Join), "there are no other sources"
        yield from _sources(source)
    elif isinstance(definition, Join):
        for side in definition.sides:
            assert isinstance(side.source, Table | View | Join), "there are no other sources"
            yield from _sources(side.source)


def _above(app: App, definition: Definition) -> Iterator[Definition]:
    for view in app.views():
        if view.source is definition:
            yield view
            yield from _above(app, view)
    for join in app.joins():
        if any(side.source is definition for side in join.sides):
            yield join
            yield from _above(app, join)


def sentence(definition: Definition) -> str:
    """Return a definition as one line."""
    if isinstance(definition, Table):
        parts = [f"table by {_paths(definition.key.paths, definition.key.single)}"]
        if definition.has_ts:
            parts.append(f"ts {'of the broker' if definition.ts is None else '.'.join(definition.ts)}")
        if definition.merge.value != "replace":
            parts.append(definition.merge.value)
        return ", ".join(parts)
    if isinstance(definition, Join):
        return "; ".join(join_parts(definition))
    return f"{groups(definition)} → {reducers(definition)}"


def join_parts(join: Join) -> tuple[str, str]:
    """Return the sides of a join, and its conditions, as text."""
    sides = ", ".join(map(_side, join.sides))
    pairs = " and ".join(f"{'.'.join(one)} = {'.'.join(other)}" for one, other in join.on)
    where = "" if join.filter is None else f" where {condition(join.filter.describe())}"
    return f"{'' if join.how == 'inner' else join.how + ' '}join of {sides}", f"on {pairs}{where}"


def _side(side: Side) -> str:
    own = side.source.name if side.source.name == side.name else f"{side.source.name} as {side.name}"
    return own if side.where is None else f"{own} where {condition(side.where.describe())}"


def groups(view: View) -> str:
    """Return the groups of a view, and its condition, as text."""
    if not isinstance(view.map, FieldMap):
        return f"by function {getattr(view.map.function, '__name__', 'of its own')}"
    key = view.map.key
    by = f"by {_paths(key.paths, key.single)}" if key.paths else "all in one group"
    return by if view.map.where is None else f"{by} where {condition(view.map.where.describe())}"


def reducers(view: View) -> str:
    """Return the reducers of a view as text."""
    if view.index:
        return "an index of values"
    value = view.map.value if isinstance(view.map, FieldMap) else None
    named = [_reducer(reducer, value) for reducer in view.reducers]
    if view.fields is None:
        return named[0]
    return ", ".join(f"{name}: {text}" for name, text in zip(view.fields, named, strict=True))


def in_tree(view: View) -> bool:
    """Test whether a view keeps its contributions, in trees, and not only accumulators."""
    needs = (isinstance(r, ReduceFunction) or not all(is_accumulator(cell) for cell in r.cells) for r in view.reducers)
    return view.sources or view.index or any(needs)


def condition(where: Mapping[str, Any]) -> str:
    """Return the description of a condition as text.

    >>> import penstock as ps
    >>> condition((~((ps.field("a") > 0) & (ps.field("b") == "x"))).describe())
    'not (a > 0 and b == "x")'
    """
    return condition_text(where, dumps)


def _reducer(reducer: Reducer | ReduceFunction, value: Path | None) -> str:
    about = reducer.describe()
    if isinstance(reducer, ReduceFunction):
        return f"function {about['function']}"
    counts = about["reducer"] == "count" and reducer.field is None
    reads = "" if counts else ".".join((*(value or ()), *(reducer.field or ())))
    more = [f"{name}={_argument(about[name])}" for name in _OPTIONS if about.get(name) is not None]
    order: Any = about.get("order")
    more += [f"by={', '.join(order)}"] if order else []
    where: Any = about.get("where")
    more += [] if where is None else [f"where {condition(where)}"]
    return f"{about.get('reducer', 'group')}({', '.join(filter(None, [reads, *more]))})"


def _argument(value: Any) -> str:
    return (
        ".".join(map(str, value)) if isinstance(value, list) and value and isinstance(value[0], str) else dumps(value)
    )


def _paths(paths: Sequence[tuple[str, ...]], single: bool) -> str:
    named = [".".join(path) for path in paths]
    return named[0] if single else f"({', '.join(named)})"


def text(roots: Sequence[Node], notes: Mapping[str, str]) -> str:
    """Return the forest for people. `notes` has a text beside each name."""
    lines: list[tuple[str, str, str]] = []

    def walk(node: Node, lead: str, last: bool, root: bool = False) -> None:
        branch = "" if root else lead + ("└─ " if last else "├─ ")
        name = node.definition.name
        lines.append((branch + name, sentence(node.definition), notes.get(name, "")))
        inner = "" if root else lead + ("   " if last else "│  ")
        for i, child in enumerate(node.children, 1):
            walk(child, inner, i == len(node.children))

    for root in roots:
        walk(root, "", True, root=True)
    wide = max((len(line[0]) for line in lines), default=0)
    middle = max((len(line[1]) for line in lines), default=0)
    return "\n".join(f"{name:{wide}}  {what:{middle}}  {note}".rstrip() for name, what, note in lines)


def mermaid(roots: Sequence[Node]) -> str:
    """Return the forest as a Mermaid flowchart."""
    nodes = [node for root in roots for node in root.all()]
    ids = {node.definition.name: f"n{i}" for i, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node in nodes:
        name, table = node.definition.name, isinstance(node.definition, Table)
        label = "<br/>".join(map(_escaped, (name, *parts(node.definition))))
        left, right = ('[("', '")]') if table else ('["', '"]')
        if isinstance(node.definition, Join):
            left, right = '{{"', '"}}'
        lines.append(f"  {ids[name]}{left}{label}{right}")
    lines += [
        f"  {ids[node.definition.name]} --> {ids[child.definition.name]}" for node in nodes for child in node.children
    ]
    lines += [
        f"  {ids[side.source.name]} --> {ids[node.definition.name]}"
        for node in nodes
        if isinstance(node.definition, Join)
        for side in node.definition.sides
    ]
    return "\n".join(lines)


def parts(definition: Definition) -> tuple[str, ...]:
    """Return the lines of a definition's box, below its name."""
    if isinstance(definition, Join):
        return join_parts(definition)
    return (sentence(definition),) if isinstance(definition, Table) else (groups(definition), reducers(definition))


def _escaped(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
