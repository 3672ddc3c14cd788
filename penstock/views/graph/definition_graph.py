"""The graph of tables and views as text: a line per definition, in the order of their dependencies.

Each view has one source. So the graph is a forest, and its roots are the tables and joins. A join names its sides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import duration_text
from penstock.views.answers.json_forms import json_text
from penstock.views.app import App, Definition
from penstock.views.conditions.condition_notation import condition_text
from penstock.views.definitions import Table, View
from penstock.views.join_definitions import Join, Side
from penstock.views.reducer_protocols import Path, Reducer, is_accumulator
from penstock.views.stream_definitions import Stream
from penstock.views.view_maps import FieldMap, ReduceFunction

__all__ = [
    "GraphNode",
    "condition",
    "definition_forest",
    "definition_sentence",
    "graph_mermaid",
    "graph_text",
    "groups_text",
    "is_in_tree",
    "join_parts",
    "neighbor_forest",
    "parts",
    "reducers_text",
]

_OPTIONS = ("n", "by", "nulls", "distinct")
_LISTS = ("shares", "order", "edges")  # options with several values


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A definition, its depth below its table or join, and the views on it."""

    definition: Definition
    depth: int
    children: tuple[GraphNode, ...]

    def all(self) -> Iterator[GraphNode]:
        """Yield this node and all nodes below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.all()


def definition_forest(app: App, only: Definition | None = None) -> list[GraphNode]:
    """Return the tables and joins with their views. With `only`: that definition, its sources, and all on it."""
    wanted = None if only is None else {*_sources(only), *_above(app, only)}

    return _forest(app, list(app.names()) if wanted is None else [one.name for one in wanted])


def neighbor_forest(app: App, only: Definition) -> list[GraphNode]:
    """Return one definition with its direct sources, and the views and joins directly on it."""
    on = [view for view in app.views() if view.source is only]
    joins = [join for join in app.joins() if any(side.source is only for side in join.sides)]
    return _forest(app, [one.name for one in (*_direct_sources(only), only, *on, *joins)])


def _forest(app: App, names: Collection[str]) -> list[GraphNode]:
    """Return the definitions of these names. A view is a root if its source is not among them."""

    def node(definition: Definition, depth: int) -> GraphNode:
        views = [v for v in app.views() if v.source is definition and v.name in names]
        return GraphNode(definition, depth, tuple(node(view, depth + 1) for view in views))

    out = [node(table, 0) for table in app.inputs() if table.name in names]
    out += [node(view, 0) for view in app.views() if view.name in names and view.source.name not in names]
    depths = {below.definition.name: below.depth for root in out for below in root.all()}
    for join in app.joins():
        if join.name in names:
            out.append(node(join, 1 + max(depths.get(side.source.name, -1) for side in join.sides)))
            depths |= {below.definition.name: below.depth for below in out[-1].all()}
    return out


def _direct_sources(definition: Definition) -> list[Definition]:
    found = [definition.source] if isinstance(definition, View) else []
    found += [side.source for side in definition.sides] if isinstance(definition, Join) else []
    return [source for source in found if isinstance(source, Table | View | Join)]


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


def definition_sentence(definition: Definition) -> str:
    """Return a definition as one line."""
    if isinstance(definition, Stream):
        own = "the broker" if definition.ts is None else ".".join(definition.ts)
        idle = "" if definition.idle is None else f", idle {duration_text(definition.idle)}"
        return f"stream, ts {own}, lateness {duration_text(definition.lateness)}{idle}"
    if isinstance(definition, Table):
        parts = [f"table by {_paths(definition.key.paths, definition.key.single)}"]
        if definition.has_ts:
            parts.append(f"ts {'of the broker' if definition.ts is None else '.'.join(definition.ts)}")
        if definition.merge.value != "replace":
            parts.append(definition.merge.value)
        return ", ".join(parts)
    if isinstance(definition, Join):
        return "; ".join(join_parts(definition))
    return f"{groups_text(definition)} → {reducers_text(definition)}"


def join_parts(join: Join) -> tuple[str, str]:
    """Return the sides of a join, and its conditions, as text."""
    sides = ", ".join(map(_side, join.sides))
    pairs = " and ".join(f"{'.'.join(one)} = {'.'.join(other)}" for one, other in join.on)
    where = "" if join.filter is None else f" where {condition(join.filter.describe())}"
    return f"{'' if join.how == 'inner' else join.how + ' '}join of {sides}", f"on {pairs}{where}"


def _side(side: Side) -> str:
    own = side.source.name if side.source.name == side.name else f"{side.source.name} as {side.name}"
    return own if side.where is None else f"{own} where {condition(side.where.describe())}"


def groups_text(view: View) -> str:
    """Return the groups of a view, and its condition, as text."""
    if view.window is not None:
        own = view.window.window
        every = "" if own.every == own.size else f" every {duration_text(own.every)}"
        paths = [f"{'.'.join(own.path)} in {duration_text(own.size)}{every}", *map(".".join, view.window.rest)]
        by = f"by {', '.join(paths)}"
        return by if view.window.where is None else f"{by} where {condition(view.window.where.describe())}"
    if not isinstance(view.map, FieldMap):
        return f"by function {getattr(view.map.function, '__name__', 'of its own')}"
    key = view.map.key
    by = f"by {_paths(key.paths, key.single)}" if key.paths else "all in one group"
    return by if view.map.where is None else f"{by} where {condition(view.map.where.describe())}"


def reducers_text(view: View) -> str:
    """Return the reducers of a view as text."""
    if view.index:
        return "an index of values"
    value = view.map.value if isinstance(view.map, FieldMap) else None
    named = [_reducer(reducer, value) for reducer in view.reducers]
    if view.fields is None:
        return named[0]
    return ", ".join(f"{name}: {text}" for name, text in zip(view.fields, named, strict=True))


def is_in_tree(view: View) -> bool:
    """Test whether a view keeps its contributions, in trees, and not only accumulators."""
    needs = (isinstance(r, ReduceFunction) or not all(is_accumulator(cell) for cell in r.cells) for r in view.reducers)
    return view.sources or view.index or any(needs)


def condition(where: Mapping[str, Any]) -> str:
    """Return the description of a condition as text.

    >>> import penstock as ps
    >>> condition((~((ps.field("a") > 0) & (ps.field("b") == "x"))).describe())
    'not (a > 0 and b == "x")'
    """
    return condition_text(where, json_text)


def _reducer(reducer: Reducer | ReduceFunction, value: Path | None) -> str:
    about = reducer.describe()
    if isinstance(reducer, ReduceFunction):
        return f"function {about['function']}"
    counts = about["reducer"] == "count" and reducer.field is None
    reads = "" if counts else ".".join((*(value or ()), *(reducer.field or ())))
    more = [f"{name}={_argument(about[name])}" for name in _OPTIONS if about.get(name) is not None]
    more += [f"{'by' if name == 'order' else name}={_list(reducer, about, name)}" for name in _LISTS if about.get(name)]
    where: Any = about.get("where")
    more += [] if where is None else [f"where {condition(where)}"]
    return f"{about.get('reducer', 'group')}({', '.join(filter(None, [reads, *more]))})"


def _list(reducer: Reducer, about: Mapping[str, Any], name: str) -> str:
    """Return the values of an option, in brackets if there are several."""
    values = [json_text(edge) for edge in getattr(reducer, "edges", ())] if name == "edges" else about[name]
    return str(values[0]) if len(values) == 1 else f"[{', '.join(values)}]"


def _argument(value: Any) -> str:
    return (
        ".".join(map(str, value))
        if isinstance(value, list) and value and isinstance(value[0], str)
        else json_text(value)
    )


def _paths(paths: Sequence[tuple[str, ...]], single: bool) -> str:
    named = [".".join(path) for path in paths]
    return named[0] if single else f"({', '.join(named)})"


def graph_text(roots: Sequence[GraphNode], notes: Mapping[str, str]) -> str:
    """Return the forest for people. `notes` has a text beside each name."""
    lines: list[tuple[str, str, str]] = []

    def walk(node: GraphNode, lead: str, last: bool, root: bool = False) -> None:
        branch = "" if root else lead + ("└─ " if last else "├─ ")
        name = node.definition.name
        lines.append((branch + name, definition_sentence(node.definition), notes.get(name, "")))
        inner = "" if root else lead + ("   " if last else "│  ")
        for i, child in enumerate(node.children, 1):
            walk(child, inner, i == len(node.children))

    for root in roots:
        walk(root, "", True, root=True)
    wide = max((len(line[0]) for line in lines), default=0)
    middle = max((len(line[1]) for line in lines), default=0)
    return "\n".join(f"{name:{wide}}  {what:{middle}}  {note}".rstrip() for name, what, note in lines)


def graph_mermaid(roots: Sequence[GraphNode]) -> str:
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
    return (
        (definition_sentence(definition),)
        if isinstance(definition, Table)
        else (groups_text(definition), reducers_text(definition))
    )


def _escaped(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
