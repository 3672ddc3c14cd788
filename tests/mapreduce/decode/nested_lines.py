"""Lines of nested documents from a seed, in JSON and MessagePack: most have all fields, others differ at any depth.

`run` compares the columns of their typed decoder with those of dicts, line by line.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import penstock as ps
from penstock.cache import pack
from penstock.mapreduce import Decoder, FieldPlan, Spaces
from penstock.mapreduce.decode import typed_blocks
from tests.mapreduce.decode import test_decoder as columns

_JSON = [None, 0, -7, 2**70, 1.0, 2.5, True, False, "", "Øst", [], [{"city": "Rom"}], {}]
_PACKED = [Decimal("1.50"), Decimal("-1E+3"), b"Oslo", float("nan"), float("inf")]
"""Values that take the place of a field or of a map: of JSON, and of MessagePack alone."""


def plans() -> list[FieldPlan]:
    """Return plans with paths of up to four parts. In the second a path is also the beginning of another."""
    found = []
    for whole in (False, True):
        table = ps.App("shop").table("t", key="who.id", ts="ts")
        views = [
            table.view("cities", key="who.address.city", reduce=ps.sum("order.total.amount")),
            table.view("zips", key=("who.address.zip", "kind"), reduce=ps.mean("order.total.tax.rate")),
            table.view("kinds", key="kind", reduce=ps.count(), where=ps.field("order.paid") == True),  # noqa: E712
        ]
        if whole:
            views.append(table.view("addresses", key="who.address", reduce=ps.last("order.total"), sources=True))
        found.append(FieldPlan.of(table.key, table.ts, views))
    return found


def lines_of(seed: int, n: int = 24) -> list[bytes]:
    """Return documents of which some differ from the others at one or two places."""
    draw = random.Random(seed)
    packed = draw.random() < 0.3
    out = []
    for i in range(n):
        doc = _document(i)
        for _ in range(draw.choice((0, 0, 1, 2)) if i >= draw.randrange(n) else 0):
            _change(doc, draw, packed)
        if packed:
            out.append(pack(doc))
        elif draw.random() < 0.2:
            out.append(_twice(doc, draw))
        else:
            out.append(json.dumps(doc, ensure_ascii=draw.random() < 0.5).encode())
    return out


def _document(i: int) -> dict[str, Any]:
    address = {"city": f"c{i % 3}", "zip": i % 4, "lines": ["é", i]}
    total = {"amount": i, "tax": {"rate": 0.25, "code": "x"}}
    return {"ts": i, "who": {"id": i, "address": address}, "order": {"total": total, "paid": i % 2 == 0}, "kind": "k"}


def _change(doc: dict[str, Any], draw: random.Random, packed: bool) -> None:
    """Remove one field at any depth, or give it another value."""
    at = doc
    while True:
        name = draw.choice(list(at)) if at else "new"
        below = at.get(name)
        if not isinstance(below, dict) or draw.random() < 0.4:
            break
        at = below
    if draw.random() < 0.3:
        at.pop(name, None)
    else:
        at[name] = draw.choice(_JSON + _PACKED if packed else _JSON)


def _twice(doc: Any, draw: random.Random) -> bytes:
    """Encode a document with names that occur twice: the last of them counts."""
    if not isinstance(doc, dict):
        return json.dumps(doc).encode()
    fields = []
    for name, value in doc.items():
        if draw.random() < 0.3:
            other = _twice(draw.choice([doc, *_JSON]), draw)
            fields.append(json.dumps(name).encode() + b":" + other)
        fields.append(json.dumps(name).encode() + b":" + _twice(value, draw))
    return b"{" + b",".join(fields) + b"}"


def run(seeds: range) -> int:
    """Check the lines of these seeds. Return the number of lines that came through typed decoders."""
    typed = 0
    for seed in seeds:
        for plan in plans():
            spaces = Spaces()
            of = Decoder(plan, spaces, columns.SEED)
            columns._check(plan, lines_of(seed), of, spaces)
            columns._check(plan, lines_of(seed + 1), of, spaces)
            assert isinstance(of._typed, typed_blocks.TypedDecoders)
            typed += sum(_fits(of._typed, line) for line in lines_of(seed))
    return typed


def _fits(typed: typed_blocks.TypedDecoders, line: bytes) -> bool:
    try:
        (typed.json if line[:1] == b"{" else typed.msgpack)(line)
    except ValueError:
        return False
    return True
