"""The expected rows of a case, by a full computation over its final documents. Nothing here is shared with a peer.

A row is a line of text: the view, the parts of the group and the results, with tabs between them. A top n is a list
with commas. Every driver writes such lines, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.peers.shapes import TOP, Case, How, View

Row = dict[str, Any]


class WrongView(Exception):
    """The error if the rows of a peer differ from the expected ones. It names a row."""


def expected(case: Case, path: Path, append_only: bool = False) -> set[str]:
    """Return the rows of all views of a case over the lines of a file.

    With `append_only` every line counts as a document of its own.
    """
    documents = list(_joined(path) if case.joined else _documents(case, path, append_only))
    rows: dict[str, list[Row]] = {}
    lines = set[str]()
    for view in case.views:
        rows[view.name] = list(_rows(view, rows[view.source] if view.source else documents))
        lines.update(_line(view, row) for row in rows[view.name])
    return lines


def compare(system: str, found: set[str], wanted: set[str]) -> None:
    """Raise WrongView if the rows of a peer differ."""
    if found == wanted:
        return
    missing, more = sorted(wanted - found), sorted(found - wanted)
    first = f"it lacks {missing[0]!r}" if missing else ""
    other = f"it has {more[0]!r}" if more else ""
    raise WrongView(
        f"the views of {system} differ from the input in {len(missing) + len(more)} rows: "
        + ", and ".join(text for text in (first, other) if text)
    )


def _documents(case: Case, path: Path, append_only: bool) -> Iterable[Row]:
    decode = msgspec.json.Decoder().decode
    paths = {name: name.split(".") for name in case.columns}
    last: dict[Any, Row | None] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file):
            doc = decode(line)
            key = number if append_only else doc["id"]
            last[key] = None if doc.get("deleted") else {name: _field(doc, parts) for name, parts in paths.items()}
    return (doc for doc in last.values() if doc is not None)


def _joined(path: Path) -> Iterator[Row]:
    """Yield each order with the country of its customer."""
    decode = msgspec.json.Decoder().decode
    orders, countries = dict[int, Row](), dict[int, str]()
    with path.open("rb") as file:
        for line in file:
            doc = decode(line)
            if "country" in doc:
                countries[doc["id"]] = doc["country"]
            else:
                orders[doc["id"]] = doc
    return (order | {"country": countries[order["customer"]]} for order in orders.values())


def _field(doc: Any, parts: list[str]) -> Any:
    for part in parts:
        doc = doc[part]
    return doc


def _rows(view: View, source: Iterable[Row]) -> Iterator[Row]:
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in source:
        groups[tuple(row[name] for name in view.by)].append(row)
    for group, own in groups.items():
        yield dict(zip(view.by, group, strict=True)) | {
            total.name: _total(total.how, [row[total.field] for row in own if total.field], len(own))
            for total in view.totals
        }


def _total(how: How, values: list[Any], n: int) -> Any:
    match how:
        case How.COUNT:
            return n
        case How.SUM:
            return sum(values)
        case How.MIN:
            return min(values)
        case How.MAX:
            return max(values)
        case How.TOP:
            return ",".join(map(str, sorted(values, reverse=True)[:TOP]))
        case How.DISTINCT:
            return len(set(values))


def _line(view: View, row: Row) -> str:
    names = [*view.by, *(total.name for total in view.totals)]
    return "\t".join([view.name, *(str(row[name]) for name in names)])
