"""The calls of a client as steps: each step is a request, and gets its answer.

The client of threads and that of asyncio run the same steps. So a rule about numbers or retries is in one place.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.cache import PenstockError
from penstock.client.document_requests import DocumentRequest, document_requests
from penstock.client.service_error import ServiceError
from penstock.rpc import json_field, key_of_field, position_field, position_of_field, value_of_field
from penstock.rpc import penstock_pb2 as pb
from penstock.views import ABSENT, Change, Counts, Position, PositionExpired, Rejection, Row

__all__ = [
    "CallStep",
    "ChangesRequest",
    "ScanPages",
    "SessionNumbers",
    "Steps",
    "changes_steps",
    "delete_steps",
    "get_steps",
    "put_steps",
    "session_steps",
]

T = TypeVar("T")
_KEYS = 1_000


@dataclass(frozen=True, slots=True)
class CallStep:
    """One call. It may be `repeated` if its outcome is unknown."""

    name: str
    request: Any
    repeated: bool = True


Steps = Generator[CallStep, Any, T]


class SessionNumbers:
    """The numbers of the writes of one session; None is the next number that the server has not told yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.upto: int | None = None

    def learn_steps(self, table: str) -> Steps[int]:
        """Ask for the last number that is stored, by a request without documents."""
        if self.upto is None:
            reply = yield CallStep("Upsert", pb.UpsertRequest(table=table, session=self.name, number=1))
            self.upto = reply.upto
        assert self.upto is not None, "the server told it"
        return self.upto


def put_steps(
    table: str,
    docs: Any,
    strict: bool = False,
    conditions: Mapping[Any, Any] | None = None,
    dry_run: bool = False,
    numbers: SessionNumbers | None = None,
    number: int | None = None,
) -> Steps[Counts]:
    """Put documents, in as many requests as they need."""
    total = Counts()
    wanted = _conditions(conditions)
    for own in _whole(docs) if wanted or dry_run else document_requests(docs):
        request = pb.UpsertRequest(table=table, strict=strict, conditions=wanted, dry_run=dry_run)
        if own.packed:
            request.msgpack = own.data
        else:
            request.lines = own.data
        number = yield from _numbered(request, numbers, number)
        reply = yield CallStep("Upsert", request, numbers is not None or dry_run)
        if numbers is not None and not dry_run:
            numbers.upto = reply.upto
        number = None if number is None else number + len(own.parts)
        total += _counts(reply)
    return total


def delete_steps(
    table: str,
    keys: Iterable[Any],
    ts: Any,
    conditions: Mapping[Any, Any] | None = None,
    numbers: SessionNumbers | None = None,
) -> Steps[Counts]:
    """Delete the documents of keys."""
    request = pb.RemoveRequest(table=table, keys=list(map(json_field, keys)), conditions=_conditions(conditions))
    if ts is not None:
        request.ts = json_field(ts)
    yield from _numbered(request, numbers, None)
    reply = yield CallStep("Remove", request, numbers is not None)
    if numbers is not None:
        numbers.upto = reply.upto
    return _counts(reply)


def get_steps(of: str, keys: Iterable[Any]) -> Steps[list[Row | None]]:
    """Get the rows of keys or groups, None for an absent one."""
    out, left = list[Row | None](), list(map(json_field, keys))
    while left:
        part, left = left[:_KEYS], left[_KEYS:]
        request = pb.GetRequest(of=of, keys=part, consistency=pb.LINEARIZABLE)
        reply = yield CallStep("Get", request)
        out += [_row(row) if row.present else None for row in reply.rows]
    return out


def session_steps(numbers: SessionNumbers, table: str) -> Steps[int]:
    """Return the last number of a session that is stored."""
    return numbers.learn_steps(table)


class ScanPages:
    """The pages of a scan, which continues after the last one if the connection breaks."""

    def __init__(self, of: str, limits: Mapping[str, Any], reverse: bool, limit: int | None, level: int | None) -> None:
        given: dict[str, Any] = {name: json_field(value) for name, value in limits.items() if value is not ABSENT}
        self._request = pb.ScanRequest(of=of, reverse=reverse, consistency=pb.LINEARIZABLE, **given)
        if level is not None:
            self._request.level = level
        self._left = limit
        self._read = 0
        self.done = limit == 0
        self.step = CallStep("Scan", self._request)

    def message(self) -> pb.ScanRequest:
        """Return the request of the rest."""
        self._request.limit = self._left or 0
        if self._read and not self._request.cursor:  # a scan of a table has no cursors
            self.step = CallStep("Scan", self._request, repeated=False)
        return self._request

    def rows_of(self, page: pb.Rows) -> Iterator[Row]:
        """Yield the rows of a page."""
        self._request.cursor = page.cursor
        self._read += len(page.rows)
        self._left = None if self._left is None else self._left - len(page.rows)
        yield from map(_row, page.rows)
        self.done = self._left == 0


class ChangesRequest:
    """The changes that a reader asked for, and the position that it has reached."""

    def __init__(self, views: Iterable[str], since: Position, follow: bool, initial: bool) -> None:
        self.views = list(views)
        self.since = since
        self.follow = follow
        self.initial = initial
        self.until: Position = None
        self.oldest = False  # begin with the oldest change of the feed
        self.done = False
        self.step = CallStep("Watch", None)
        self.end = ServiceError("UNAVAILABLE", "UNAVAILABLE", "the server ended the stream")

    def message(self) -> pb.WatchRequest:
        """Return the request of the rest."""
        since = b"" if self.since is None or self.initial else position_field(self.since)
        return pb.WatchRequest(views=self.views, initial=self.initial, since=since)

    def changes_of(self, message: pb.Changes) -> Iterator[Change]:
        """Yield the changes of a message, and note the position after them."""
        for own in message.changes:
            change = Change(
                own.view,
                key_of_field(own.group, "group"),
                value_of_field(own.old) if own.old else ABSENT,
                value_of_field(own.new) if own.new else ABSENT,
                position_of_field(own.position, "position"),
            )
            if self.until is None or not _after(change.position, self.until):
                yield change
        if message.token and not message.lagged:
            self.since, self.initial, self.oldest = position_of_field(message.token, "token"), False, False
            self.done = self.until is not None and _covers(self.since, self.until)

    def failed(self, error: ServiceError) -> ServiceError:
        """Return the error of a stream that broke, or begin at the oldest change if it began before that."""
        if error.reason != "POSITION_EXPIRED":
            return error
        oldest = position_of_field(error.about["oldest"].encode(), "oldest")
        if not self.oldest:
            raise PositionExpired(self.since, oldest) from None
        self.since = oldest
        return self.end


def changes_steps(request: ChangesRequest) -> Steps[None]:
    """Learn the current position, if the changes end there or begin with the oldest one."""
    if request.follow and (request.initial or request.since is not None):
        return
    reply = yield CallStep("Locate", pb.LocateRequest())
    numbers = [position_of_field(own.position, "position") for own in reply.partitions]
    several = len(numbers) > 1
    if not request.follow:
        request.until = tuple(numbers) if several else numbers[0]
    if request.since is None and not request.initial:
        request.oldest = True
        request.since = (0,) * len(numbers) if several else 0


def _after(position: Position, until: Position) -> bool:
    """Return True if a change is later than the end."""
    if isinstance(position, int):
        return bool(position > until)
    return any(a > b for a, b in zip(position, until, strict=True))


def _covers(position: Position, until: Position) -> bool:
    """Return True if a position has reached the end."""
    if isinstance(position, int):
        return bool(position >= until)
    return all(a >= b for a, b in zip(position, until, strict=True))


def _whole(docs: Any) -> Iterator[DocumentRequest]:
    """Yield the only request. PenstockError if the documents need several, as conditions hold for one alone."""
    found = document_requests(docs)
    first = next(found, None)
    if first is not None:
        if next(found, None) is not None:
            raise PenstockError("a write with conditions, or a dry run, is one request of at most 1 MiB; give less")
        yield first


def _numbered(request: Any, numbers: SessionNumbers | None, number: int | None) -> Steps[int | None]:
    """Set the session and number of a request. Return the given number."""
    if numbers is not None:
        upto = yield from numbers.learn_steps(request.table)
        request.session, request.number = numbers.name, upto + 1 if number is None else number
    return number


def _conditions(conditions: Mapping[Any, Any] | None) -> list[pb.Condition]:
    return [
        pb.Condition(key=json_field(key), absent=True)
        if ts is ABSENT
        else pb.Condition(key=json_field(key), ts=json_field(ts))
        for key, ts in (conditions or {}).items()
    ]


def _counts(reply: pb.WriteReply) -> Counts:
    rejections = tuple(Rejection(own.table, own.place, own.reason) for own in reply.rejections)
    return Counts(reply.applied, reply.equal, reply.late, reply.held, reply.rejected, rejections)


def _row(row: pb.Row) -> Row:
    return Row(key_of_field(row.key, "key"), value_of_field(row.value), row.held)
