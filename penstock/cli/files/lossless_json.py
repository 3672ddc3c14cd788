r"""A table as lossless JSON lines, out of a store and into one.

A document is its JSON object. A value without a JSON form is an object with one name that begins with a dollar, as in
the other outputs. If a document itself contains such an object, {"$map": …} encloses it. Other lines are:

    {"$delete": KEY, "$ts": TS}     the key has no document as of TS
    {"$doc": {…}, "$ts": TS}        a document without its ts, or one whose own names are among these

A document that was merged from patches becomes one line per ts, the lowest first. Invariant: if the lines of a table
are imported into an empty store of the same app, the table has the same digest there.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from penstock.cache import PenstockError, RecordError, normalise, pack_document, unpack
from penstock.cli.json_values import as_group, dumps, loads
from penstock.gateway import Deletion, Form, PatchedDocument, ReceivedRecord, TableBatch, document_of, key_value, unwrap
from penstock.spout import SpoutBatch
from penstock.views import Table

__all__ = ["portable_lines", "read_keys", "read_portable"]

_DELETE, _DOC, _TS = "$delete", "$doc", "$ts"
_MAP = "$map"
_STANDS_FOR: dict[str, Callable[[Any], Any]] = {
    "$bytes": lambda text: b64decode(text, validate=True),
    "$float": float,
    "$decimal": Decimal,
}
_MARK = b'"$'
_SPACE = b" \t\r\n"
_EPOCH = datetime(1970, 1, 1)
_SECOND = 10**9
_FAR = (23 * 60 + 59) * 60


# -- out


def portable_lines(table: Table, line: bytes, instants: bool) -> Iterator[bytes]:
    """Yield the JSON lines of a stored line, without line feeds. With `instants` the ts of the table are times."""
    if line[:1] == b"{" and _MARK not in line and b"\n" not in line:
        yield line  # unchanged
        return
    found = unwrap(line)
    if found.absent:
        floor = found.ts if found.patched is None else found.patched.floor
        yield _json_error({_DELETE: found.key, _TS: _ts(floor, instants)})
    elif found.patched is not None and found.patched.stamps:
        yield from _patches(table, found.patched, instants)
    elif table.broker_ts:
        yield _json_error({_DOC: _guarded(document_of(line)), _TS: _ts(found.ts, instants)})
    else:
        yield _document(document_of(line))


def _patches(table: Table, patched: PatchedDocument, instants: bool) -> Iterator[bytes]:
    """Yield the lines that rebuild a document of patches: the last deletion, then the fields of each ts.

    Every patch had the fields of the key and the ts, so these fields carry the greatest ts. Earlier patches need them
    too, and the later ones overwrite them.
    """
    if patched.floor is not None:
        yield _json_error({_DELETE: key_value(table, patched.fields), _TS: _ts(patched.floor, instants)})
    roots = {path[0] for path in table.key.paths} | ({table.ts[0]} if table.ts else set())
    moments = sorted(set(patched.stamps.values()))
    for moment in moments:
        fields = {name: value for name, value in patched.fields.items() if patched.stamps[name] == moment}
        if moment != moments[-1]:
            fields = {name: patched.fields[name] for name in roots} | fields
            if table.ts:
                fields[table.ts[0]] = _replaced(fields[table.ts[0]], table.ts[1:], _ts(moment, instants))
        if table.broker_ts:
            yield _json_error({_DOC: _guarded(fields), _TS: _ts(moment, instants)})
        else:
            yield _document(fields)


def _replaced(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """Return a value in which the value at this path is replaced."""
    return {**value, path[0]: _replaced(value[path[0]], path[1:], new)} if path else new


def _document(doc: dict[str, Any]) -> bytes:
    if _DELETE in doc or _DOC in doc:
        return _json_error({_DOC: _guarded(doc)})
    text = dumps(doc, exact=True).encode()
    return _json_error(_guarded(doc)) if _MARK in text else text


def _json_error(value: dict[str, Any]) -> bytes:
    return dumps(value, exact=True).encode()


def _guarded(value: Any) -> Any:
    """Return a value in which no map can be mistaken for an encoded value."""
    if isinstance(value, list):
        return [_guarded(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {name: _guarded(item) for name, item in value.items()}
    return {_MAP: inner} if len(inner) == 1 and next(iter(inner)) in (*_STANDS_FOR, _MAP) else inner


def _ts(ts: Any, instants: bool) -> Any:
    """Return a ts as it is written. Times are stored as nanoseconds.

    >>> _ts(-1, True), _ts(1_700_000_000_500_000_000, True), _ts(7, False)
    ('1969-12-31T23:59:59.999999999Z', '2023-11-14T22:13:20.5Z', 7)
    """
    if not instants or ts is None:
        return ts
    seconds, rest = divmod(ts, _SECOND)
    part = f".{rest:09}".rstrip("0") if rest else ""
    for shift, zone in ((0, "Z"), (_FAR, "+23:59"), (-_FAR, "-23:59")):
        try:  # a time of the first or last possible day has no date in some zones
            local = _EPOCH + timedelta(seconds=seconds + shift)
        except OverflowError:
            continue
        return f"{local.isoformat()}{part}{zone}"
    raise AssertionError("a stored time has a date in some zone")


# -- in


def read_portable(batch: SpoutBatch) -> SpoutBatch:
    """Return a batch of lines with their encoded values, deletions and ts decoded."""
    if not batch.raw or not any(_MARK in line for line in batch.records.lines):
        return batch
    return _read_lines(batch, _add_line)


def read_keys(batch: SpoutBatch, table: Table, ts: Any) -> SpoutBatch:
    """Return a batch of deletions: each line is a key as JSON, or a map with the key's fields."""

    def add(records: TableBatch, line: bytes) -> None:
        value = _loaded(line) if batch.raw else unpack(line)
        key = as_group(value)
        if isinstance(key, dict):
            key = as_group(key_value(table, value))
            fields = ", ".join(repr(".".join(path)) for path in table.key.paths)
            if key is None or (isinstance(key, tuple) and all(part is None for part in key)):
                raise RecordError(f"no key in field {fields}: it is null")
        records.deletes[records.n] = Deletion(normalise(key), ts)

    return _read_lines(batch, add)


def _loaded(line: bytes) -> Any:
    try:
        return loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is no JSON: {error}") from None


def _add_line(records: TableBatch, line: bytes) -> None:
    if _MARK in line:
        _add(records, line)
    elif line[:1] == b"{":
        records.lines.append(line)
    else:
        raise RecordError("it is no JSON object")


def _read_lines(batch: SpoutBatch, add: Callable[[TableBatch, bytes], None]) -> SpoutBatch:
    """Return a batch with the record of each line. A line without a record is rejected with its reason."""
    records = TableBatch([])
    places = iter(range(batch.records.n + len(batch.skips)))
    skips, refused, received = list(batch.skips), dict(batch.refused), dict(batch.received)
    before = set(batch.skips)
    for raw in batch.records.lines:
        place = next(place for place in places if place not in before)
        line = raw.strip(_SPACE) if batch.raw else raw
        if not line:
            skips.append(place)
            continue
        try:
            add(records, line)
        except (PenstockError, ValueError) as error:
            refused[place] = str(getattr(error, "reason", error))
            received[place] = ReceivedRecord.made(Form.TEXT, raw)
            skips.append(place)
    return SpoutBatch(
        records,
        batch.source,
        batch.start,
        batch.resume,
        batch.note,
        batch.again,
        False,
        batch.unit,
        batch.first,
        sorted(skips),
        refused,
        received,
        begins=batch.known_begins(),
    )


def _add(records: TableBatch, line: bytes) -> None:
    """Add the record of a line: a deletion or a document."""
    value = _loaded(line)
    if not isinstance(value, dict):
        raise RecordError("it is no JSON object")
    ts = normalise(_restored(value.get(_TS)))
    if _DELETE in value and value.keys() <= {_DELETE, _TS}:
        records.deletes[records.n] = Deletion(normalise(as_group(value[_DELETE])), ts)
        return
    if _DOC in value and value.keys() <= {_DOC, _TS}:
        doc = _restored(value[_DOC])
        if not isinstance(doc, dict):
            raise RecordError(f"its {_DOC} is no JSON object")
        if ts is not None:
            records.stamps[records.n] = ts
    else:
        doc = _restored(value)
    records.lines.append(pack_document(doc))


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name == _MAP and isinstance(inner, dict):
            return {own: _restored(item) for own, item in inner.items()}
        if name in _STANDS_FOR:
            try:
                return _STANDS_FOR[name](inner)
            except (TypeError, ValueError, ArithmeticError, binascii.Error):
                raise RecordError(f"{dumps(value)} has no meaning") from None
    return {name: _restored(item) for name, item in value.items()}
