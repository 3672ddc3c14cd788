"""The graph of tables and views as a picture: boxes in columns, each to the right of its source.

Equal graphs give equal bytes. The colors are readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from xml.sax.saxutils import escape, quoteattr

from penstock.views.app import Definition
from penstock.views.definitions import Table
from penstock.views.graph.definition_graph import GraphNode
from penstock.views.graph.definition_graph import parts as box_parts
from penstock.views.join_definitions import Join

_LINE, _CHAR, _PAD, _GAP_X, _GAP_Y = 18, 7.3, 12, 56, 18
_LONG = 44  # characters of a line in a page; the page of the definition has it whole
_ROOM = 22  # characters that a box with notes has at least, so that a number may grow
_NAMESPACE = "http://www.w3.org/2000/svg"
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#57606a}"
    ".name{font-weight:bold;fill:#1f6feb}"
    "rect{fill:none;stroke:#8b949e;stroke-width:1.2}.table{stroke:#1f6feb;stroke-width:2}"
    "path{fill:none;stroke:#8b949e;stroke-width:1.2}"
)


@dataclass(frozen=True, slots=True)
class BoxNote:
    """The link of a box, and the texts below its lines, each by the name with which a page updates it."""

    link: str
    lines: Mapping[str, str]


def graph_svg(
    roots: Sequence[GraphNode], title: str, notes: Mapping[str, BoxNote] | None = None, chosen: str | None = None
) -> str:
    """Return the forest as an SVG document.

    With `notes` it is a part of a page, whose own style applies: each box is a link with the notes of its name.
    """
    boxes = [_Box.of(node, notes, node.definition.name == chosen) for root in roots for node in root.all()]
    named = {box.name: box for box in boxes}
    columns = max((box.node.depth for box in boxes), default=0) + 1
    widths = [max((box.width for box in boxes if box.node.depth == depth), default=0.0) for depth in range(columns)]
    lefts = [sum(widths[:depth]) + depth * _GAP_X + _PAD for depth in range(columns)]
    bottom = float(_PAD)
    for root in roots:
        bottom = _place(root, bottom, named)
    for box in boxes:
        box.left, box.width = lefts[box.node.depth], widths[box.node.depth]
    right = lefts[-1] + widths[-1] + _PAD if boxes else 2.0 * _PAD
    style = f"<style>{_STYLE}</style>" if notes is None else ""
    parts = [
        f'<svg xmlns="{_NAMESPACE}" width="{right:.0f}" height="{bottom:.0f}" viewBox="0 0 {right:.0f} {bottom:.0f}">',
        f"<title>{escape(title)}</title>{style}",
    ]
    for box in boxes:
        parts += [_edge(box, named[child.definition.name]) for child in box.node.children]
        if isinstance(box.node.definition, Join):
            sources = [one for side in box.node.definition.sides for one in boxes if one.definition is side.source]
            parts += [_edge(source, box) for source in sources]
    return "\n".join([*parts, *(box.drawn() for box in boxes), "</svg>"])


@dataclass(slots=True)
class _Box:
    """A box, its lines and its place."""

    node: GraphNode
    lines: tuple[str, ...]
    note: BoxNote | None
    chosen: bool
    width: float
    left: float = 0.0
    top: float = 0.0

    @classmethod
    def of(cls, node: GraphNode, notes: Mapping[str, BoxNote] | None, chosen: bool) -> Self:
        lines = (node.definition.name, *box_parts(node.definition))
        note = None if notes is None else notes.get(node.definition.name)
        if notes is not None:
            lines = tuple(line if len(line) <= _LONG else f"{line[: _LONG - 1]}…" for line in lines)
        every = (*lines, *(note.lines.values() if note is not None else ()))
        return cls(
            node, lines, note, chosen, max(_ROOM if note is not None else 0, *map(len, every)) * _CHAR + 2 * _PAD
        )

    @property
    def definition(self) -> Definition:
        return self.node.definition

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def height(self) -> float:
        return (len(self.lines) + (0 if self.note is None else len(self.note.lines))) * _LINE + _PAD

    def drawn(self) -> str:
        """Return the box as SVG."""
        kind = " ".join(["table"] * isinstance(self.definition, Table) + ["chosen"] * self.chosen)
        kind = f' class="{kind}"' if kind else ""
        size = f'width="{self.width:.1f}" height="{self.height:.1f}"'
        shape = f'<rect{kind} x="{self.left:.1f}" y="{self.top:.1f}" {size} rx="6"/>'
        texts = [self._text(i, line, "" if i else ' class="name"') for i, line in enumerate(self.lines)]
        if self.note is None:
            return shape + "".join(texts)
        for i, (name, line) in enumerate(self.note.lines.items(), len(self.lines)):
            texts.append(self._text(i, line, f" class={quoteattr('note')} data-live={quoteattr(name)}"))
        return f"<a href={quoteattr(self.note.link)}>{shape}{''.join(texts)}</a>"

    def _text(self, i: int, line: str, attributes: str) -> str:
        x, y = self.left + _PAD, self.top + _PAD / 2 + 13 + i * _LINE
        return f'<text{attributes} x="{x:.1f}" y="{y:.1f}">{escape(line)}</text>'


def _place(node: GraphNode, top: float, boxes: Mapping[str, _Box]) -> float:
    """Place a node and its children from `top` down. Return the top of the next node."""
    at = top
    for child in node.children:
        at = _place(child, at, boxes)
    own = boxes[node.definition.name]
    own.top = top
    if node.children:
        first, last = (boxes[child.definition.name] for child in (node.children[0], node.children[-1]))
        own.top = max(top, (first.top + last.top + last.height) / 2 - own.height / 2)
    return max(at, own.top + own.height + _GAP_Y)


def _edge(source: _Box, target: _Box) -> str:
    x, y = source.left + source.width, source.top + source.height / 2
    to_x, to_y = target.left, target.top + target.height / 2
    middle = (x + to_x) / 2
    return f'<path d="M{x:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"/>'
