"""The call Watch: changes of views as they are committed, each watcher in a thread of its own.

A watcher has a position and no queue. gRPC takes the next message only when the client has room. So a client that does
not read costs no memory. When its position leaves the feed, the last message says `lagged`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import grpc

from penstock.cache import encode_key, prefix_bounds
from penstock.rpc import json_field, key_of_field, position_field, position_of_field
from penstock.rpc import penstock_pb2 as pb
from penstock.serve.grpc.call_limit import CallLimit
from penstock.serve.grpc.error_status import CallRefused
from penstock.serve.store.change_steps import coalesced, read_step
from penstock.serve.store.commit_watch import CommitWatch
from penstock.serve.store.store_reading import StoreReading
from penstock.views import ABSENT, Change, Position, PositionAhead, PositionExpired

__all__ = ["ChangeStream", "change_of"]

_WATCHERS = 64
_IDLE = 1.0  # seconds between two looks for the end of an idle watcher
_MESSAGE = 500  # changes of one message
_MOST_PAUSE = 60_000  # milliseconds

Keep = Callable[[Change], bool]


class ChangeStream:
    """The watchers of one front."""

    def __init__(self, store: StoreReading) -> None:
        self._store = store
        self._commits = CommitWatch(store.snapshots)
        self._limit = CallLimit(_WATCHERS, "watchers")
        self._rest = threading.Event()
        self.threads = ThreadPoolExecutor(_WATCHERS + 4, "penstock-watch")

    def watch(self, request: pb.WatchRequest, context: grpc.ServicerContext) -> Iterator[pb.Changes]:
        """Yield the changes of views from a position on, until the client ends the call."""
        views = tuple(dict.fromkeys(request.views))
        if request.coalesce_ms > _MOST_PAUSE:
            message = f"coalesce_ms is {request.coalesce_ms}; it is at most {_MOST_PAUSE:,}"
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "COALESCE", message)
        keep = _kept(request)
        with self._limit.counted(), self._commits.watching():
            if request.initial:
                since = yield from self._rows(request, views, keep)
            else:
                since = self._since(request, views)
                yield pb.Changes(token=position_field(since))
            while not self._commits.ended and context.is_active():
                now = self._commits.wait(since, _IDLE)
                if now == since:
                    continue
                try:
                    changes, since = read_step(self._store.reader, views, since, now)
                except (PositionExpired, PositionAhead):
                    yield pb.Changes(token=position_field(since), lagged=True)
                    raise
                found = coalesced(changes) if request.coalesce_ms else changes
                yield from _messages([change_of(one) for one in found if keep(one)], since)
                if request.coalesce_ms:
                    self._rest.wait(request.coalesce_ms / 1000)

    def end(self) -> None:
        """End all watchers, after the changes that they are sending."""
        self._rest.set()
        self._commits.end()

    def close(self) -> None:
        """Wait for the threads."""
        self.threads.shutdown()

    def _since(self, request: pb.WatchRequest, views: Sequence[str]) -> Position:
        with self._store.snapshot() as snap:
            now = snap.position
            for name in views:
                snap.view(name)  # raises for an unknown one
        since = position_of_field(request.since, "since") if request.since else now
        self._store.reader.feed(*views, since=since)  # raises for a position that the feed lacks
        return since

    def _rows(
        self, request: pb.WatchRequest, views: Sequence[str], keep: Keep
    ) -> Generator[pb.Changes, None, Position]:
        """Yield the rows of the views as changes from absent ones. Return their position."""
        if request.since:
            message = "since and initial are two places to begin at; leave one out"
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "TWO_BEGINNINGS", message)
        with self._store.snapshot() as snap:
            since = snap.position
            for name in views or list(snap.schema.views):
                rows = (Change(name, row.key, ABSENT, row.value, since) for row in snap.view(name).items())
                left = (change_of(one) for one in rows if keep(one))
                while part := list(islice(left, _MESSAGE)):
                    yield pb.Changes(changes=part)
        yield pb.Changes(token=position_field(since))
        return since


def change_of(change: Change) -> pb.Change:
    """Return the message of a change."""
    return pb.Change(
        view=change.view,
        group=json_field(change.group),
        old=b"" if change.old is ABSENT else json_field(change.old),
        new=b"" if change.new is ABSENT else json_field(change.new),
        position=position_field(change.position),
    )


def _messages(changes: Sequence[pb.Change], reached: Position) -> Iterator[pb.Changes]:
    """Yield messages of a few hundred changes; the last one has the position that is reached, and may have none."""
    for start in range(0, max(len(changes), 1), _MESSAGE):
        part = changes[start : start + _MESSAGE]
        last = start + _MESSAGE >= len(changes)
        yield pb.Changes(changes=part, token=position_field(reached) if last else b"")


def _kept(request: pb.WatchRequest) -> Keep:
    """Return a function that tells if a change has the prefix of a request."""
    if not request.prefix:
        return lambda change: True
    low, high = prefix_bounds(key_of_field(request.prefix, "prefix"))

    def keep(change: Change) -> bool:
        own = encode_key(change.group)
        return low <= own and (high is None or own < high)

    return keep
