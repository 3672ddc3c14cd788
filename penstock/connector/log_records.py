"""Records of transaction logs: typed values, their codec, and the state of a participant that its records mean.

A record is MessagePack (kind, time in seconds, fields) and its CRC32C. In a file a header comes first:

    header := length u32 | crc32c of the length u32          record := MessagePack | crc32c u32

The length counts the record with its CRC. Invariants:

- reading an encoded record returns an equal record, and reading any bytes evaluates nothing;
- a log that is cut anywhere yields the records before the cut. Zeros after the last record count as a cut;
- any other damage is an error. The header has a CRC of its own, so a damaged length does not hide later records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import msgspec
from crc32c import crc32c

from penstock.connector.errors import LogDamaged, ProtocolFault

__all__ = [
    "AbortForced",
    "AbortVote",
    "CommitDone",
    "CommitVote",
    "DecisionUnknown",
    "LogRecord",
    "LogSummary",
    "MessageKept",
    "MessagesDropped",
    "OpenVote",
    "PositionHeld",
    "RollbackDone",
    "SessionEnded",
    "StreamNamed",
    "TransactionDecided",
    "TransactionOpened",
    "UncommittedListed",
    "WorkerNamed",
    "WorkersRetired",
    "decode_record",
    "encode_record",
    "logged",
    "read_log",
]

Ranges = tuple[tuple[int, int, int], ...]


class WorkerNamed(msgspec.Struct, frozen=True, array_like=True, tag="worker"):
    """The log is that of this worker."""

    time: float
    worker: str


class StreamNamed(msgspec.Struct, frozen=True, array_like=True, tag="stream"):
    """A worker opened its stream under a name."""

    time: float
    name: bytes


class UncommittedListed(msgspec.Struct, frozen=True, array_like=True, tag="list-uncommitted"):
    """The participant listed its open transactions."""

    time: float
    transactions: tuple[str, ...]


class CommitVote(msgspec.Struct, frozen=True, array_like=True, tag="1-ok"):
    """The participant promised to commit these ranges, or to roll them back."""

    time: float
    transaction: str
    ranges: Ranges


class AbortVote(msgspec.Struct, frozen=True, array_like=True, tag="1-rollback"):
    """The participant refused to commit these ranges."""

    time: float
    transaction: str
    ranges: Ranges


class CommitDone(msgspec.Struct, frozen=True, array_like=True, tag="2-ok"):
    """A transaction is committed up to an offset."""

    time: float
    transaction: str
    end: int


class RollbackDone(msgspec.Struct, frozen=True, array_like=True, tag="2-rollback"):
    """A transaction is rolled back to an offset."""

    time: float
    transaction: str
    start: int


class DecisionUnknown(msgspec.Struct, frozen=True, array_like=True, tag="2-error"):
    """A decision came for a transaction that is not open. It had no effect."""

    time: float
    transaction: str
    commit: bool


class AbortForced(msgspec.Struct, frozen=True, array_like=True, tag="next-txn-force-abort"):
    """Bytes are missing, so the next vote is abort."""

    time: float
    reason: str


class SessionEnded(msgspec.Struct, frozen=True, array_like=True, tag="connection-closed"):
    """A session of the worker ended."""

    time: float


class WorkersRetired(msgspec.Struct, frozen=True, array_like=True, tag="workers-left"):
    """The worker reported that others left its cluster."""

    time: float
    workers: tuple[str, ...]


class TransactionOpened(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """A coordinator asked for votes about all bytes before `end`."""

    time: float
    transaction: str
    end: int


class TransactionDecided(msgspec.Struct, frozen=True, array_like=True, tag="decided"):
    """A coordinator decided to commit all bytes before `end`, which are all changes up to a position of its store."""

    time: float
    transaction: str
    end: int
    position: int | tuple[int, ...]


class PositionHeld(msgspec.Struct, frozen=True, array_like=True, tag="position"):
    """The log has all changes up to a position."""

    time: float
    position: int | tuple[int, ...]


class MessageKept(msgspec.Struct, frozen=True, array_like=True, tag="message"):
    """A source has this message. It is sent under no other id."""

    time: float
    message: int
    body: bytes


class MessagesDropped(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """All messages up to this one are acknowledged, and the log no longer has them."""

    time: float
    message: int


LogRecord = (
    WorkerNamed
    | StreamNamed
    | UncommittedListed
    | CommitVote
    | AbortVote
    | CommitDone
    | RollbackDone
    | DecisionUnknown
    | AbortForced
    | SessionEnded
    | WorkersRetired
    | TransactionOpened
    | TransactionDecided
    | PositionHeld
    | MessageKept
    | MessagesDropped
)

_CRC = struct.Struct(">I")
_HEADER = struct.Struct(">II")
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(LogRecord)


def encode_record(record: LogRecord) -> bytes:
    """Encode a record with its CRC."""
    body = msgspec.msgpack.encode(record)
    return body + _CRC.pack(crc32c(body))


def decode_record(data: bytes) -> LogRecord:
    """Decode a record with its CRC; `ProtocolFault` if it is damaged.

    >>> decode_record(encode_record(CommitDone(0.0, "app:c_id=3", 6)))
    CommitDone(time=0.0, transaction='app:c_id=3', end=6)
    """
    body = data[: -_CRC.size]
    if data[-_CRC.size :] != _CRC.pack(crc32c(body)):
        raise ProtocolFault("a record of a transaction log has a wrong CRC")
    try:
        record: LogRecord = _DECODER.decode(body)
    except msgspec.DecodeError:
        raise ProtocolFault("a record of a transaction log has an unknown form") from None
    return record


def logged(record: LogRecord) -> bytes:
    """Encode a record as a log file holds it."""
    data = encode_record(record)
    length = _CRC.pack(len(data))
    return length + _CRC.pack(crc32c(length)) + data


def read_log(data: bytes, where: str) -> tuple[list[LogRecord], int]:
    """Return the records of a log, and the offset after the last whole one. `LogDamaged` names a damaged record.

    >>> log = logged(SessionEnded(1.0)) + logged(AbortForced(2.0, "a gap"))
    >>> [len(read_log(log[:cut], "sink.log")[0]) for cut in (0, 12, len(log) - 1, len(log))]
    [0, 0, 1, 2]
    """
    records: list[LogRecord] = []
    at = 0
    while at + _HEADER.size <= len(data):
        if not any(data[at : at + _HEADER.size]) and not any(data[at:]):
            break  # a power loss may leave zeros where a write was lost
        length, crc = _HEADER.unpack_from(data, at)
        if crc != crc32c(data[at : at + _CRC.size]):
            raise LogDamaged(where, at)
        end = at + _HEADER.size + length
        if end > len(data):
            break
        try:
            records.append(decode_record(data[at + _HEADER.size : end]))
        except ProtocolFault:
            if any(data[at + _HEADER.size :]):
                raise LogDamaged(where, at) from None
            break
        at = end
    return records, at


class OpenVote(msgspec.Struct, frozen=True):
    """A vote without a decision yet."""

    transaction: str
    ranges: Ranges
    commit: bool

    @property
    def end(self) -> int:
        """The offset after the bytes of the transaction. Only a commit vote has exactly one range."""
        return self.ranges[0][2]


class LogSummary(msgspec.Struct):
    """The durable state of one worker's stream, as its records tell it.

    >>> ranges = ((1, 0, 6),)
    >>> LogSummary.of([CommitVote(1.0, "t", ranges)]).prepared, LogSummary.of([CommitDone(2.0, "t", 6)]).committed
    (6, 6)
    """

    name: bytes | None = None
    committed: int = 0
    vote: OpenVote | None = None
    forced: bool = False
    """The next vote is abort."""

    @classmethod
    def of(cls, records: Iterable[LogRecord]) -> LogSummary:
        """Return the state after these records."""
        summary = cls()
        for record in records:
            summary.apply(record)
        return summary

    @property
    def prepared(self) -> int:
        """The end of the open commit vote, or else the end of the last commit."""
        return self.vote.end if self.vote is not None and self.vote.commit else self.committed

    def apply(self, record: LogRecord) -> None:
        """Follow one record."""
        match record:
            case StreamNamed(name=name):
                self.name = name
            case CommitVote() | AbortVote():
                self.vote = OpenVote(record.transaction, record.ranges, isinstance(record, CommitVote))
                self.forced = False
            case CommitDone(end=end):
                self.committed, self.vote = end, None
            case RollbackDone():
                self.vote = None
            case AbortForced():
                self.forced = True
            case _:
                pass

    def records(self, time: float) -> list[LogRecord]:
        """Return the fewest records that mean this state."""
        records: list[LogRecord] = [] if self.name is None else [StreamNamed(time, self.name)]
        if self.committed:
            records.append(CommitDone(time, "", self.committed))
        if self.vote is not None:
            kind = CommitVote if self.vote.commit else AbortVote
            records.append(kind(time, self.vote.transaction, self.vote.ranges))
        if self.forced:
            records.append(AbortForced(time, ""))
        return records
