"""Records of the transaction log: round trips, a log cut at every byte, damage, and the state that they mean."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector import (
    AbortForced,
    AbortVote,
    CommitDone,
    CommitVote,
    DecisionUnknown,
    LogDamaged,
    LogRecord,
    LogSummary,
    OpenVote,
    ProtocolFault,
    RollbackDone,
    SessionEnded,
    StreamNamed,
    UncommittedListed,
    WorkersRetired,
    decode_record,
    encode_record,
    logged,
    read_log,
)

RANGES = ((1, 0, 6),)
RECORDS: list[LogRecord] = [
    StreamNamed(0.5, b"app-w-w1-id-7"),
    UncommittedListed(1.0, ()),
    CommitVote(2.0, "t1", RANGES),
    CommitDone(3.0, "t1", 6),
    AbortForced(4.0, "a gap at 6"),
    AbortVote(5.0, "t2", ((1, 6, 9), (1, 9, 2**64 - 1))),
    RollbackDone(6.0, "t2", 6),
    DecisionUnknown(7.0, "t3", True),
    SessionEnded(8.0),
    WorkersRetired(9.0, ("w2", "w3")),
]
LOG = b"".join(map(logged, RECORDS))

times = st.floats(0, 2**40)
names = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
u64 = st.integers(0, 2**64 - 1)
ranges = st.lists(st.tuples(u64, u64, u64), max_size=3).map(tuple)
records: st.SearchStrategy[LogRecord] = st.one_of(
    st.builds(StreamNamed, times, st.binary(max_size=20)),
    st.builds(UncommittedListed, times, st.lists(names, max_size=2).map(tuple)),
    st.builds(CommitVote, times, names, ranges),
    st.builds(AbortVote, times, names, ranges),
    st.builds(CommitDone, times, names, u64),
    st.builds(RollbackDone, times, names, u64),
    st.builds(DecisionUnknown, times, names, st.booleans()),
    st.builds(AbortForced, times, st.text(st.characters(codec="utf-8"), max_size=20)),
    st.builds(SessionEnded, times),
    st.builds(WorkersRetired, times, st.lists(names, max_size=3).map(tuple)),
)


@given(records)
def test_a_record_survives_its_encoding(record: LogRecord) -> None:
    assert decode_record(encode_record(record)) == record
    assert read_log(logged(record), "log") == ([record], len(logged(record)))


def test_a_log_cut_at_every_byte_has_the_records_before_the_cut() -> None:
    ends = [len(b"".join(map(logged, RECORDS[:n]))) for n in range(len(RECORDS) + 1)]
    for cut in range(len(LOG) + 1):
        whole = sum(end <= cut for end in ends) - 1
        assert read_log(LOG[:cut], "log") == (RECORDS[:whole], ends[whole])


def test_zeros_after_a_cut_at_a_record_are_a_cut() -> None:
    for n in range(len(RECORDS) + 1):
        log = b"".join(map(logged, RECORDS[:n]))
        assert read_log(log + bytes(100), "log") == (RECORDS[:n], len(log))
    header = logged(RECORDS[0])[:8]
    assert read_log(header + bytes(100), "log") == ([], 0)


def test_each_changed_byte_is_damage_at_its_record() -> None:
    starts = [len(b"".join(map(logged, RECORDS[:n]))) for n in range(len(RECORDS))]
    for at in range(len(LOG)):
        changed = bytearray(LOG)
        changed[at] ^= 0x40
        with pytest.raises(LogDamaged) as caught:
            read_log(bytes(changed), "sink.log")
        assert caught.value.offset == max(start for start in starts if start <= at)
        assert str(caught.value).startswith(f"sink.log: the record at byte {caught.value.offset} is damaged; ")


@given(st.binary(max_size=60))
def test_any_bytes_are_records_or_damage(data: bytes) -> None:
    with suppress(LogDamaged):
        read_log(data, "log")
    with suppress(ProtocolFault):
        decode_record(data)


def test_a_record_of_an_unknown_kind_is_refused() -> None:
    from crc32c import crc32c

    body = b"\x92\xa5other\x01"
    with pytest.raises(ProtocolFault, match="unknown form"):
        decode_record(body + crc32c(body).to_bytes(4, "big"))


def test_a_commit_vote_prepares_its_end() -> None:
    summary = LogSummary.of(RECORDS[:3])
    assert (summary.committed, summary.prepared) == (0, 6)
    assert summary.vote == OpenVote("t1", RANGES, True)


def test_a_commit_ends_the_vote() -> None:
    summary = LogSummary.of(RECORDS[:4])
    assert (summary.committed, summary.prepared, summary.vote) == (6, 6, None)


def test_an_abort_vote_prepares_nothing_and_takes_the_forced_abort() -> None:
    assert LogSummary.of(RECORDS[:5]).forced
    summary = LogSummary.of(RECORDS[:6])
    assert (summary.committed, summary.prepared, summary.forced) == (6, 6, False)
    assert summary.vote is not None
    assert not summary.vote.commit


def test_other_records_change_nothing() -> None:
    assert LogSummary.of(RECORDS) == LogSummary(b"app-w-w1-id-7", 6, None, False)
