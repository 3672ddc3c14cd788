"""The graph of tables and views as a picture: boxes in columns, each to the right of its source.

Equal graphs give equal bytes. The colors are readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from penstock.cli.drawing.graph import Node
from penstock.cli.drawing.graph import parts as box_parts
from penstock.views import Join, Table

_LINE, _CHAR, _PAD, _GAP_X, _GAP_Y = 18, 7.3, 12, 56, 18
_NAMESPACE = "http://www.w3.org/2000/svg"
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#57606a}"
    ".name{font-weight:bold;fill:#1f6feb}"
    "rect{fill:none;stroke:#8b949e;stroke-width:1.2}.table{stroke:#1f6feb;stroke-width:2}"
    "path{fill:none;stroke:#8b949e;stroke-width:1.2}"
)


def svg(roots: Sequence[Node], title: str) -> str:
    """Return the forest as an SVG document."""
    nodes = [node for root in roots for node in root.all()]
    columns = max((node.depth for node in nodes), default=0) + 1
    widths = [max((_width(node) for node in nodes if node.depth == depth), default=0.0) for depth in range(columns)]
    lefts = [sum(widths[:depth]) + depth * _GAP_X + _PAD for depth in range(columns)]
    tops: dict[str, float] = {}
    bottom = float(_PAD)
    for root in roots:
        bottom = _place(root, bottom, tops)
    right = lefts[-1] + widths[-1] + _PAD if nodes else 2.0 * _PAD
    parts = [
        f'<svg xmlns="{_NAMESPACE}" width="{right:.0f}" height="{bottom:.0f}" viewBox="0 0 {right:.0f} {bottom:.0f}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
    ]
    for node in nodes:
        parts += [_edge(node, child, lefts, widths, tops) for child in node.children]
        if isinstance(node.definition, Join):
            sources = [one for side in node.definition.sides for one in nodes if one.definition is side.source]
            parts += [_edge(source, node, lefts, widths, tops) for source in sources]
    parts += [_box(node, lefts[node.depth], tops[node.definition.name], widths[node.depth]) for node in nodes]
    return "\n".join([*parts, "</svg>"])


def _lines(node: Node) -> tuple[str, ...]:
    definition = node.definition
    return definition.name, *box_parts(definition)


def _width(node: Node) -> float:
    return max(map(len, _lines(node))) * _CHAR + 2 * _PAD


def _height(node: Node) -> float:
    return len(_lines(node)) * _LINE + _PAD


def _place(node: Node, top: float, tops: dict[str, float]) -> float:
    """Place a node and its children from `top` down. Return the top of the next node."""
    at = top
    for child in node.children:
        at = _place(child, at, tops)
    own = _height(node)
    if node.children:
        first, last = node.children[0], node.children[-1]
        middle = (tops[first.definition.name] + tops[last.definition.name] + _height(last)) / 2
        tops[node.definition.name] = max(top, middle - own / 2)
    else:
        tops[node.definition.name] = top
    return max(at, tops[node.definition.name] + own + _GAP_Y)


def _edge(node: Node, child: Node, lefts: list[float], widths: list[float], tops: dict[str, float]) -> str:
    x, y = lefts[node.depth] + widths[node.depth], tops[node.definition.name] + _height(node) / 2
    to_x, to_y = lefts[child.depth], tops[child.definition.name] + _height(child) / 2
    middle = (x + to_x) / 2
    return f'<path d="M{x:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"/>'


def _box(node: Node, left: float, top: float, width: float) -> str:
    kind = ' class="table"' if isinstance(node.definition, Table) else ""
    shape = f'<rect{kind} x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_height(node):.1f}" rx="6"/>'
    texts: list[str] = []
    for i, line in enumerate(_lines(node)):
        name = "" if i else ' class="name"'
        x, y = left + _PAD, top + _PAD / 2 + 13 + i * _LINE
        texts.append(f'<text{name} x="{x:.1f}" y="{y:.1f}">{escape(line)}</text>')
    return shape + "".join(texts)
