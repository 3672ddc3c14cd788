"""The calls that write: Upsert, Remove and the stream Put.

Invariant: a reply follows the commit. A call that ends with DEADLINE_EXCEEDED or UNAVAILABLE may be stored or not, and
a repeated call with the same session number changes nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from penstock.cache import DefinitionError
from penstock.engine import Batch, WriteResult, batches_of
from penstock.remote import WRITE
from penstock.rpc import documents_in, key_of_field, position_field
from penstock.rpc import penstock_pb2 as pb
from penstock.serve.grpc.call_limit import CallLimit
from penstock.serve.grpc.deadlines import seconds_left
from penstock.serve.grpc.error_status import CallRefused
from penstock.serve.store.store_reading import StoreReading
from penstock.views import ABSENT, Counts

__all__ = ["WriteCalls"]

_WHOLE = 1 << 31  # documents of one transaction: all of a request
_STREAMS = 64


class WriteCalls:
    """The writes of one front."""

    def __init__(self, store: StoreReading, limit: CallLimit) -> None:
        self._store = store
        self._limit = limit
        self._streams = CallLimit(_STREAMS, "streams")
        self._turn = threading.Lock()
        self._waiting: set[grpc.ServicerContext] = set()  # streams that wait for a request
        self._ended = False
        self.threads = ThreadPoolExecutor(_STREAMS + 4, "penstock-put")

    def upsert(self, request: pb.UpsertRequest, context: grpc.ServicerContext) -> pb.WriteReply:
        """Put documents in one transaction per partition."""
        with self._limit.counted():
            return self._reply(self._put(request, request.session, request.number, context))

    def remove(self, request: pb.RemoveRequest, context: grpc.ServicerContext) -> pb.WriteReply:
        """Delete the documents of some keys."""
        ts = key_of_field(request.ts, "ts") if request.ts else None
        batch = Batch(origin="delete")
        for i, data in enumerate(request.keys):
            batch.delete(key_of_field(data, f"keys[{i}]"), ts)
        with self._limit.counted():
            done = self._write(request, [batch], request.session, request.number, False, context)
            return self._reply(done)

    def put(self, requests: Iterator[pb.UpsertRequest], context: grpc.ServicerContext) -> Iterator[pb.WriteReply]:
        """Take the numbered requests of a session, and answer each with the counts of all so far.

        A request without a session or a number continues after the one before it.
        """
        session, number, total = "", 0, Counts()
        with self._streams.counted():
            while (request := self._next(requests, context)) is not None:
                session, number = request.session or session, request.number or number
                if not session or not number:
                    message = "the first request of a stream needs a session and a number; else use Upsert"
                    raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "NO_SESSION", message)
                done = self._put(request, session, number, context)
                total += done.counts
                number += 0 if request.dry_run else done.counts.records
                yield self._reply(WriteResult(total, done.upto))

    def end(self) -> None:
        """End the streams that wait now, and each other one after its request."""
        with self._turn:
            self._ended = True
            waiting = list(self._waiting)
        for context in waiting:
            context.cancel()

    def close(self) -> None:
        """Wait for the threads."""
        self.threads.shutdown()

    def _next(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        """Wait for the next request of a stream. Return None at its end."""
        with self._turn:
            if self._ended:
                return None
            self._waiting.add(context)
        try:
            return next(requests, None)
        finally:
            with self._turn:
                self._waiting.discard(context)

    def _put(self, request: pb.UpsertRequest, session: str, number: int, context: grpc.ServicerContext) -> WriteResult:
        if request.lines and request.msgpack:
            raise DefinitionError("lines and msgpack are two inputs of one request; send one of them")
        if request.msgpack:
            documents: list[Any] = list(documents_in(request.msgpack))
        else:
            documents = request.lines.split(b"\n")
        return self._write(request, list(batches_of(documents, _WHOLE)), session, number, request.dry_run, context)

    def _write(
        self,
        request: Any,
        batches: Sequence[Batch],
        session: str,
        number: int,
        dry_run: bool,
        context: grpc.ServicerContext,
    ) -> WriteResult:
        table = request.table
        self._store.app.table_of(table)  # raises for an unknown one
        conditions = [_condition(own) for own in request.conditions]
        return self._store.write_within(
            seconds_left(context),
            WRITE,
            tables={table: batches},
            strict=request.strict,
            session=session,
            number=number,
            conditions={table: conditions} if conditions else {},
            dry_run=dry_run,
        )

    def _reply(self, done: WriteResult) -> pb.WriteReply:
        counts = done.counts
        with self._store.snapshot() as snap:
            token = position_field(snap.position)
        return pb.WriteReply(
            applied=counts.applied,
            equal=counts.equal,
            late=counts.late,
            held=counts.held,
            rejected=counts.rejected,
            rejections=[pb.Rejection(table=own.table, place=own.where, reason=own.reason) for own in counts.rejections],
            token=token,
            upto=done.upto,
        )


def _condition(condition: pb.Condition) -> tuple[Any, Any]:
    """Return the key of a condition, with the wanted ts or ABSENT."""
    key = key_of_field(condition.key, "the key of a condition")
    wanted = condition.WhichOneof("wanted")
    if wanted is None or (wanted == "absent" and not condition.absent):
        raise DefinitionError("a condition wants absent: true, or a ts")
    return key, ABSENT if wanted == "absent" else key_of_field(condition.ts, "the ts of a condition")
