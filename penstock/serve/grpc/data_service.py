"""The service Data: writes, reads of single rows, pages of rows, and the placement of keys."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import grpc

from penstock.cache import encode_key
from penstock.engine import Snapshot
from penstock.rpc import json_field, key_of_field, position_field, position_of_field
from penstock.rpc import penstock_pb2 as pb
from penstock.serve.access.access_tokens import Permission
from penstock.serve.grpc.call_limit import CallLimit
from penstock.serve.grpc.change_stream import ChangeStream, change_of
from penstock.serve.grpc.deadlines import seconds_left
from penstock.serve.grpc.error_status import CallRefused
from penstock.serve.grpc.placement import PlacementReader
from penstock.serve.grpc.rpc_method import RpcMethod, RpcService
from penstock.serve.grpc.write_calls import WriteCalls
from penstock.serve.store.row_pages import PageRequest, read_page
from penstock.serve.store.store_reading import StoreReading
from penstock.serve.store.store_reads import StoreReads
from penstock.views import Row

__all__ = ["DataService"]

_KEYS = 1_000
_ANSWER = 4 << 20
_PAGE = 10_000  # rows
_CALLS = 64


class DataService:
    """The methods of Data over one store."""

    def __init__(self, store: StoreReading, placement: PlacementReader) -> None:
        self._store = store
        self._reads = StoreReads(store)
        self._placement = placement
        self._calls = CallLimit(_CALLS, "calls")
        self._writes = WriteCalls(store, self._calls)
        self.changes = ChangeStream(store)

    def service(self) -> RpcService:
        """Return the table of the methods."""
        read, write = Permission.READ, Permission.WRITE
        methods = {
            "Upsert": RpcMethod(self._writes.upsert, write),
            "Remove": RpcMethod(self._writes.remove, write),
            "Put": RpcMethod(self._writes.put, write, self._writes.threads),
            "Get": RpcMethod(self._get, read),
            "Scan": RpcMethod(self._scan, read),
            "Watch": RpcMethod(self.changes.watch, read, self.changes.threads),
            "Locate": RpcMethod(self._locate, read),
        }
        return RpcService(pb.DESCRIPTOR.services_by_name["Data"], methods, self._store.meter)

    def end(self) -> None:
        """End the streams, which have no end of their own."""
        self.changes.end()
        self._writes.end()

    def close(self) -> None:
        """Wait for the threads of streams."""
        self.changes.close()
        self._writes.close()

    def _get(self, request: pb.GetRequest, context: grpc.ServicerContext) -> pb.GetReply:
        """Return one row for each key, in their order."""
        if len(request.keys) > _KEYS:
            message = f"{len(request.keys):,} keys are too many for one call; send {_KEYS:,} at a time"
            raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_KEYS", message)
        keys = [key_of_field(data, f"keys[{i}]") for i, data in enumerate(request.keys)]
        with self._calls.counted(), self._snapshot(request, context) as snap:
            rows = self._rows(snap, request.of, request.keys, keys)
            if sum(len(row.value) for row in rows) > _ANSWER:
                message = f"the answer has more than {_ANSWER:,} bytes; send fewer keys at a time"
                raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_LONG", message)
            if request.history:
                self._add_history(snap, request.of, keys, rows)
            return pb.GetReply(rows=rows, token=position_field(snap.position))

    def _rows(self, snap: Snapshot, name: str, asked: Sequence[bytes], keys: Sequence[Any]) -> list[pb.Row]:
        if self._is_table(name):
            return [
                pb.Row(key=data) if own is None else pb.Row(key=data, value=own[0], present=True, held=own[1])
                for data, own in zip(asked, snap.table(name).json_rows(keys, json_field), strict=True)
            ]
        view = snap.view(name)
        as_of = b"" if view.as_of is None else position_field(view.as_of)
        return [
            pb.Row(key=data, as_of=as_of)
            if row is None
            else pb.Row(key=data, value=json_field(row.value), present=True, held=row.held, as_of=as_of)
            for data, row in zip(asked, view.rows(keys), strict=True)
        ]

    def _is_table(self, name: str) -> bool:
        return any(table.name == name for table in self._store.app.tables())

    def _add_history(self, snap: Snapshot, name: str, keys: Sequence[Any], rows: list[pb.Row]) -> None:
        """Add the changes of each group to its row. A table has none in the feed."""
        if self._is_table(name):
            message = f"the feed has changes of views, and {name!r} is a table; leave out history, or ask a view"
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "NO_HISTORY", message)
        by_group = {encode_key(key): row for key, row in zip(keys, rows, strict=True)}
        for part in self._store.reader.feed(name, since=snap.followed, until=snap.position):
            for change in part:
                row = by_group.get(encode_key(change.group))
                if row is not None:
                    row.history.append(change_of(change))

    def _scan(self, request: pb.ScanRequest, context: grpc.ServicerContext) -> Iterator[pb.Rows]:
        """Yield pages of rows, all of one position."""
        limits = {
            name: key_of_field(data, name) for name in ("start", "stop", "prefix") if (data := getattr(request, name))
        }
        level = request.level if request.HasField("level") else None
        left = request.limit or None
        cursor = request.cursor.decode("latin-1") or None
        with self._calls.counted(), self._snapshot(request, context) as snap:
            if self._is_table(request.of):
                yield from self._documents(snap, request)
                return
            while True:
                most = _PAGE if left is None else min(left, _PAGE)
                asked = PageRequest(request.of, limits, request.reverse, most, level, cursor)
                page = read_page(self._store.reader, snap, asked, json_field)
                rows = [pb.Row(key=key, value=value, present=True, held=held) for key, value, held in page.rows]
                cursor = page.cursor
                left = None if left is None else left - len(rows)
                token = position_field(page.position)
                yield pb.Rows(rows=rows, token=token, cursor=(cursor or "").encode())
                if cursor is None or left == 0:
                    return

    def _documents(self, snap: Snapshot, request: pb.ScanRequest) -> Iterator[pb.Rows]:
        """Yield all documents of a table, which has no order of keys."""
        given = [name for name in ("start", "stop", "prefix", "reverse", "cursor") if getattr(request, name)]
        if given or request.HasField("level"):
            message = (
                f"{request.of!r} is a table, whose documents have no order; leave out {', '.join(given) or 'level'}, "
                "or scan a view"
            )
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "NO_ORDER", message)
        token, rows, size, left = position_field(snap.position), list[pb.Row](), 0, request.limit or None
        for row in snap.table(request.of):
            rows.append(_row(row))
            size += len(rows[-1].value) + len(rows[-1].key)
            left = None if left is None else left - 1
            if size > _DOCUMENTS or left == 0:
                yield pb.Rows(rows=rows, token=token)
                rows, size = [], 0
            if left == 0:
                return
        yield pb.Rows(rows=rows, token=token)

    def _locate(self, request: pb.LocateRequest, context: grpc.ServicerContext) -> pb.Placement:
        """Return the placement, and the partition of each key."""
        keys = [key_of_field(data, f"keys[{i}]") for i, data in enumerate(request.keys)]
        with self._calls.counted(), self._store.snapshot() as snap:
            if request.of and not self._is_table(request.of):
                snap.view(request.of)  # raises for an unknown one
            return self._placement.read(snap, keys)

    def _snapshot(self, request: Any, context: grpc.ServicerContext) -> AbstractContextManager[Snapshot]:
        """Return a snapshot with the consistency that a request asks for."""
        position = position_of_field(request.token, "token") if request.token else None
        until = time.monotonic() + seconds_left(context)
        if request.consistency == pb.SESSION or position is not None:
            return self._reads.reached(position, until)
        if request.consistency == pb.LINEARIZABLE:
            return self._reads.linearizable()
        return self._reads.eventual()


_DOCUMENTS = 256 << 10  # bytes of one page, but for its last document


def _row(row: Row) -> pb.Row:
    return pb.Row(key=json_field(row.key), value=json_field(row.value), present=True, held=row.held)
