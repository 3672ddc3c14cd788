"""Lines to columns: the one decoder of documents in every format.

It decodes only the fields that key, ts and views read, into a msgspec struct created at run time. The types follow the
observed lines, so columns are homogeneous without another check. Blocks of 1,024 lines stay in cache. Invariants:

- each line is decoded separately, so lines cannot merge or shift;
- a line that violates the types makes its block fall back to dicts, line by line. The columns are the same, only
  slower. The types widen by the observed values and never narrow;
- an invalid line is reported by index, and does not affect the others;
- if a view is a function, documents are decoded whole and every column is read from the dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    MAX_DIGITS,
    KeyTooLong,
    Lane,
    PenstockError,
    RecordError,
    has_long_number,
    is_json,
    received_document,
    unpack,
    unpack_document,
)
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Codes, Groups
from penstock.mapreduce.columns.hash_lanes import hash_lanes
from penstock.mapreduce.columns.value_columns import condition, encoded_texts, group_codes, input_column, key_lanes
from penstock.mapreduce.decode.typed_blocks import (
    Brackets,
    TypedBlock,
    TypedDecoders,
    dict_getter,
    field_block,
    is_plain_json,
)
from penstock.mapreduce.maps.emissions import Emissions
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold, copies
from penstock.views import Key, Path, Where

BLOCK = 1024
_SAMPLE = 64
_FEW = 8  # limit of lines for which no decoder is created
_PLAIN = (frozenset({str}), frozenset({int}), frozenset({str, type(None)}), frozenset({int, type(None)}))
_ANY_ERROR = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, PenstockError, ValueError)
_dict_of_json = msgspec.json.Decoder().decode
FunctionOutput = tuple[Emissions, dict[int, Hold]]  # and by index the reasons why the view holds a document
Teller = tuple[str, FunctionMapper, Callable[[], Groups]]


@dataclass(slots=True)
class DecodedColumns:
    """The columns of a batch of documents. `bad` has by index the reasons why lines are not documents."""

    n: int
    k0: Lane
    k1: Lane | None
    ts: list[Any] | NDArray[np.int64] | None
    codes: dict[Key, Codes]
    inputs: dict[Path, Column]
    where: dict[Where, NDArray[np.bool_]]
    outputs: dict[str, FunctionOutput]  # by view
    bad: dict[int, str] = field(default_factory=dict)
    texts: list[bytes] | None = None  # the encoded keys, if they are known and all of them are text


class Decoder:
    """The decoder of one table's documents."""

    def __init__(self, plan: FieldPlan, spaces: Spaces, seed: int, tellers: Sequence[Teller] = ()) -> None:
        self._plan = plan
        self._tellers = tuple(tellers)
        self._spaces = spaces
        self._seed = seed
        self._seen: dict[Path, set[type]] = {}
        self._typed: TypedDecoders | None = None

    def columns(
        self,
        lines: Sequence[bytes],
        keys: bool = True,
        tell: bool = False,
        fields: Mapping[str, list[Any]] | None = None,
    ) -> DecodedColumns:
        """Return the columns of these lines. `keys` adds their keys, and `tell` the output of functions.

        With `keys` the lines are input and must keep the limits of received values. Without it they are stored lines.
        If `fields` has the values of the lines, only functions need the lines to be decoded.
        """
        whole = tell and bool(self._tellers)
        if fields is not None and not whole:
            return self._columns_of(field_block(fields, len(lines)), keys, False, {})
        parts: list[DecodedColumns] = []
        for a in range(0, len(lines), BLOCK):
            block, bad = self._block(lines[a : a + BLOCK], whole or self._plan.whole, keys)
            parts.append(self._columns_of(block, keys, whole, bad))
        return join_columns(parts) if parts else self.of_dicts([], keys, tell)

    def of_dicts(self, docs: Sequence[Any], keys: bool = True, tell: bool = False) -> DecodedColumns:
        """Return the columns of documents given as dicts."""
        whole = tell and bool(self._tellers)
        own = copies(docs) if whole else list(docs)
        return self._columns_of(TypedBlock(own, {}, dict_getter(own)), keys, whole, {})

    # -- lines to documents

    def _block(self, lines: Sequence[bytes], whole: bool, received: bool) -> tuple[TypedBlock, dict[int, str]]:
        """Decode a block, to dicts if `whole`. Also return by index the reasons for invalid lines."""
        json = is_json(lines[0])
        if whole:
            block = _dicts(lines, json)
            return self._one_by_one(lines, received) if block is None else (block, {})
        if self._typed is None and len(lines) <= _FEW:
            return self._one_by_one(lines, received)
        if json and not is_plain_json(lines):
            return self._one_by_one(lines, received)
        if self._typed is None:
            self._widen(self._one_by_one(lines[:_SAMPLE], received)[0])
        assert self._typed is not None
        try:
            return self._typed.block(list(map(self._typed.json if json else self._typed.msgpack, lines))), {}
        except _ANY_ERROR:
            pass
        block, bad = self._one_by_one(lines, received)
        self._widen(block)
        return block, bad

    def _one_by_one(self, lines: Sequence[bytes], received: bool) -> tuple[TypedBlock, dict[int, str]]:
        docs: list[Any] = []
        bad: dict[int, str] = {}
        document_of = received_document if received else unpack_document
        for i, line in enumerate(lines):
            try:
                docs.append(document_of(line))
            except _ANY_ERROR as error:
                docs.append({})
                why = error.reason if isinstance(error, RecordError) else "it is no JSON object and no MessagePack map"
                bad[i] = f"not a document: {why}"
        return TypedBlock(docs, {}, dict_getter(docs)), bad

    def _widen(self, block: TypedBlock) -> None:
        grown = self._typed is None
        for path in dict.fromkeys(full[:i] for full in self._plan.paths for i in range(1, len(full) + 1)):
            types = set(map(type, block.get(path)))
            seen = self._seen.setdefault(path, set())
            if not types <= seen:
                seen |= types
                grown = True
        if grown:
            self._typed = TypedDecoders(self._plan.paths, self._seen)

    # -- documents to columns

    def _columns_of(self, block: TypedBlock, keys: bool, tell: bool, bad: dict[int, str]) -> DecodedColumns:
        plan, n = self._plan, len(block.docs)
        k0, k1, texts = np.zeros(0, np.uint64), None, None
        ts: list[Any] | NDArray[np.int64] | None = None
        if keys:
            k0, k1, texts = self._keys(block, bad)
        if plan.ts is not None:
            ts = self._ts(block, plan.ts)
        parts: dict[Path, Codes] = {}
        for path in plan.group_paths:
            plain = block.known(path) in _PLAIN
            try:
                parts[path] = group_codes(block.get(path), n, self._spaces.part(path), plain)
            except PenstockError:
                parts[path] = group_codes(block.list(path), n, self._spaces.part(path), False)
        codes = {key: self._spaces.codes(key, parts, n) for key in plan.groups}
        inputs: dict[Path, Column] = {}
        for path, keep in plan.inputs.items():
            known = int if block.known(path) == {int} else None
            try:
                inputs[path] = input_column(block.get(path), n, known, keep)
            except OverflowError:
                inputs[path] = input_column(block.list(path), n, None, keep)
        where = {w: condition(w, block.list, n) for w in plan.wheres}
        outputs = self._function_outputs(block, bad) if tell else {}
        return DecodedColumns(n, k0, k1, ts, codes, inputs, where, outputs, bad, texts)

    def _function_outputs(self, block: TypedBlock, bad: dict[int, str]) -> dict[str, FunctionOutput]:
        """Run the functions, each on its own copies. The last gets the originals if no column refers to them."""
        docs = block.docs
        n, out = len(docs), dict[str, FunctionOutput]()
        good = [i for i in range(n) if i not in bad] if bad else range(n)
        if bad:
            docs = [docs[i] for i in good]
        spare = 0 if any(self._plan.inputs.values()) else len(self._tellers)
        for i, (name, mapper, groups) in enumerate(self._tellers, 1):
            if i == spare:
                own = docs
            elif block.again is None:
                own = copies(docs, block.flat)
            else:
                own = block.again()
                own = [own[place] for place in good] if bad else own
            emissions, held = mapper.run(own, groups())
            if bad:
                emissions, held = emissions.spread(good, n), {good[i]: hold for i, hold in held.items()}
            out[name] = emissions, held
        return out

    def _keys(self, block: TypedBlock, bad: dict[int, str]) -> tuple[Lane, Lane | None, list[bytes] | None]:
        """Return the lanes of the keys, and the encodings of keys that are all text."""
        key = self._plan.key
        if not key.paths:  # records of a stream, which the node numbers
            return np.zeros(len(block.docs), np.uint64), None, None
        if key.single:
            path = key.paths[0]
            known = block.known(path)
            try:
                if known == {int}:
                    return np.fromiter(block.get(path), np.int64, len(block.docs)).view(np.uint64), None, None
                if known == {str}:
                    texts = encoded_texts(block.get(path))
                    return (*hash_lanes(texts, self._seed), texts)
            except (OverflowError, UnicodeEncodeError, KeyTooLong):
                pass
            values = block.list(path)
        else:
            rows = zip(*(block.get(path) for path in key.paths), strict=True)
            values = [None if all(part is None for part in row) else row for row in rows]
        lanes, refused = key_lanes(values, self._seed)
        named = ", ".join(repr(".".join(path)) for path in key.paths)
        for i, reason in refused.items():
            bad.setdefault(i, f"no key in field {named}: {reason}")
        return (*lanes, None)

    @staticmethod
    def _ts(block: TypedBlock, path: Path) -> list[Any] | NDArray[np.int64]:
        if block.known(path) == {int}:
            try:
                return np.fromiter(block.get(path), np.int64, len(block.docs))
            except OverflowError:
                pass
        values = block.list(path)
        if set(map(type, values)) == {int}:
            try:
                return np.fromiter(values, np.int64, len(values))
            except OverflowError:
                pass
        return values


def _dicts(lines: Sequence[bytes], json: bool) -> TypedBlock | None:
    """Decode whole documents. Return None if a line needs a closer check."""
    brackets = Brackets.of(b"".join(lines), len(lines)) if json else Brackets(0)
    if brackets.deep(lines) or (max(map(len, lines)) > MAX_DIGITS and any(map(has_long_number, lines))):
        return None
    decode = _dict_of_json if json else unpack
    try:
        docs = list(map(decode, lines))
    except _ANY_ERROR:
        return None
    if set(map(type, docs)) != {dict}:
        return None
    flat = json and brackets.count == len(lines)
    return TypedBlock(docs, {}, dict_getter(docs), flat, None if flat else lambda: list(map(decode, lines)))


def join_columns(parts: Sequence[DecodedColumns]) -> DecodedColumns:
    """Concatenate the columns of blocks."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    k1 = None
    if any(p.k1 is not None for p in parts):
        k1 = np.concatenate([np.zeros(p.k0.size, np.uint64) if p.k1 is None else p.k1 for p in parts])
    ts: list[Any] | NDArray[np.int64] | None = None
    if first.ts is not None:
        arrays = [p.ts for p in parts if isinstance(p.ts, np.ndarray)]
        ts = np.concatenate(arrays) if len(arrays) == len(parts) else [t for p in parts for t in _listed(p.ts)]
    bad: dict[int, str] = {}
    at = 0
    for p in parts:
        bad.update((at + i, reason) for i, reason in p.bad.items())
        at += p.n
    outputs: dict[str, FunctionOutput] = {}
    for name in first.outputs:
        holds: dict[int, Hold] = {}
        start = 0
        for p in parts:
            holds.update((start + i, hold) for i, hold in p.outputs[name][1].items())
            start += p.n
        outputs[name] = Emissions.join([p.outputs[name][0] for p in parts]), holds
    texts = [p.texts for p in parts if p.texts is not None]
    return DecodedColumns(
        at,
        np.concatenate([p.k0 for p in parts]),
        k1,
        ts,
        {key: np.concatenate([p.codes[key] for p in parts]) for key in first.codes},
        {path: Column.join([p.inputs[path] for p in parts]) for path in first.inputs},
        {w: np.concatenate([p.where[w] for p in parts]) for w in first.where},
        outputs,
        bad,
        list(chain.from_iterable(texts)) if len(texts) == len(parts) else None,
    )


def _listed(ts: list[Any] | NDArray[np.int64] | None) -> Iterable[Any]:
    return ts.tolist() if isinstance(ts, np.ndarray) else ts or ()
