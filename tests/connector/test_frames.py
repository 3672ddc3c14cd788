"""The codec of frames: vectors, round trips, refusals, and any bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector import (
    NOTHING,
    Ack,
    AnyFrame,
    CommitMessage,
    Eos,
    ErrorFrame,
    Hello,
    ListUncommitted,
    MessageFrame,
    Notify,
    NotifyAck,
    Ok,
    Phase1,
    Phase1Reply,
    Phase2,
    ProtocolFault,
    ReplyUncommitted,
    Restart,
    WorkersLeft,
    commit_message_of,
    decode,
    encode,
    is_worker_name,
    name_of,
)
from tests.connector.frame_tuples import struct_of, tuple_of
from tests.connector.reference.frames import Frame, decoded, encoded
from tests.connector.reference.vectors import VECTORS

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
raw = st.binary(max_size=40)
transactions = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
workers = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,30}", fullmatch=True)


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=5).map(tuple)


frames: st.SearchStrategy[AnyFrame | CommitMessage] = st.one_of(
    st.builds(Hello, texts, texts, texts, texts),
    st.builds(Ok, u32),
    st.builds(ErrorFrame, texts),
    st.builds(Notify, u64, raw, u64),
    st.builds(NotifyAck, st.booleans(), u64, u64),
    st.builds(MessageFrame, st.integers(1, NOTHING), u64, i64, raw, raw),
    st.builds(Ack, u32, some(st.tuples(u64, u64))),
    st.builds(Restart, st.none() | texts.filter(bool)),
    st.builds(Eos, u64),
    st.builds(ListUncommitted, u64),
    st.builds(ReplyUncommitted, u64, some(transactions)),
    st.builds(Phase1, transactions, some(st.tuples(u64, u64, u64))),
    st.builds(Phase1Reply, transactions, st.booleans()),
    st.builds(Phase2, transactions, st.booleans()),
    st.builds(WorkersLeft, u64, some(workers)),
)


def read(data: bytes, strict: bool = True) -> AnyFrame | CommitMessage:
    """Decode one whole frame with its length, down to its message of two-phase commit."""
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    frame = decode(data[4:], strict)
    if isinstance(frame, MessageFrame) and frame.stream == 0:
        return commit_message_of(frame, strict)
    return frame


@pytest.mark.parametrize(("fields", "data"), VECTORS.values(), ids=VECTORS)
def test_a_vector_is_encoded_and_decoded(fields: Frame, data: bytes) -> None:
    assert encode(struct_of(fields)) == data
    assert read(data) == struct_of(fields)
    assert tuple_of(read(data)) == fields


@given(frames)
def test_a_frame_survives_its_encoding(frame: AnyFrame | CommitMessage) -> None:
    data = encode(frame)
    assert read(data) == frame
    assert encode(read(data, strict=False)) == data


@given(frames)
def test_agreement_with_the_codec_of_the_tests(frame: AnyFrame | CommitMessage) -> None:
    assert encoded(tuple_of(frame)) == encode(frame)
    assert decoded(encode(frame)[4:]) == tuple_of(frame)


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_a_frame_or_a_protocol_fault(data: bytes, strict: bool) -> None:
    try:
        frame = read(len(data).to_bytes(4, "big") + data, strict)
    except ProtocolFault:
        return
    assert read(encode(frame)) == frame


@given(frames, st.data())
def test_a_frame_that_lost_or_changed_bytes_is_a_frame_or_a_protocol_fault(
    frame: AnyFrame | CommitMessage, data: st.DataObject
) -> None:
    payload = bytearray(encode(frame)[4:])
    at = data.draw(st.integers(0, len(payload) - 1))
    if data.draw(st.booleans()):
        del payload[at:]
    else:
        payload[at] ^= data.draw(st.integers(1, 255))
    with suppress(ProtocolFault):
        read(len(payload).to_bytes(4, "big") + payload)


@given(frames.filter(lambda frame: not isinstance(frame, MessageFrame)), st.binary(min_size=1, max_size=9))
def test_bytes_after_the_last_field_are_refused_in_strict_mode_only(
    frame: AnyFrame | CommitMessage, more: bytes
) -> None:
    payload = encode(frame)[4:] + more
    data = len(payload).to_bytes(4, "big") + payload
    assert read(data, strict=False) == frame
    with pytest.raises(ProtocolFault, match=f"{len(more)} bytes after its last field"):
        read(data)


def test_a_restart_without_a_body_has_no_address() -> None:
    assert decode(b"\x07") == Restart(None)
    assert encode(Restart("")) == encode(Restart(None))


@pytest.mark.parametrize("tag", [9, 10, 99, 201, 255])
def test_an_unknown_tag_is_refused(tag: int) -> None:
    with pytest.raises(ProtocolFault, match=f"a frame has the unknown tag {tag}"):
        decode(bytes((tag, 0, 0, 0, 0)))


@pytest.mark.parametrize("tag", [0, 5, 200, 207])
def test_an_unknown_message_of_two_phase_commit_is_refused(tag: int) -> None:
    with pytest.raises(ProtocolFault, match=f"two-phase commit has the unknown tag {tag}"):
        commit_message_of(MessageFrame(0, 0, 0, b"", bytes((tag,)) + bytes(8)))


def test_a_message_of_two_phase_commit_needs_a_tag() -> None:
    with pytest.raises(ProtocolFault, match="has no tag"):
        commit_message_of(MessageFrame(0, 0, 0, b"", b""))


@pytest.mark.parametrize(("number", "time", "key"), [(1, 0, b""), (0, 1, b""), (0, 0, b"k")])
def test_strict_mode_refuses_fields_of_a_two_phase_message(number: int, time: int, key: bytes) -> None:
    carried = MessageFrame(0, number, time, key, b"\xc9" + bytes(8))
    assert commit_message_of(carried) == ListUncommitted(0)
    with pytest.raises(ProtocolFault, match="a message id, an event time or a key"):
        commit_message_of(carried, strict=True)


@pytest.mark.parametrize("byte", [2, 255])
def test_a_boolean_is_0_or_1(byte: int) -> None:
    with pytest.raises(ProtocolFault, match=f"the byte {byte} is no boolean"):
        decode(bytes((4, byte)) + bytes(16))


def test_text_is_utf_8() -> None:
    with pytest.raises(ProtocolFault, match="not UTF-8"):
        decode(b"\x02\x00\x01\xff")


@pytest.mark.parametrize("name", ["", "é", "a b", "t\n", "x" * 513])
def test_a_transaction_id_is_checked_in_both_directions(name: str) -> None:
    with pytest.raises(ProtocolFault, match="is no transaction id"):
        encode(Phase2(name, True))
    text = name.encode()
    body = b"\xcd" + len(text).to_bytes(2, "big") + text + b"\x01"
    with pytest.raises(ProtocolFault, match="is no transaction id"):
        commit_message_of(MessageFrame(0, 0, 0, b"", body))


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "w 1", "é", "w\n", "$(x)", "x" * 129])
def test_a_worker_name_is_checked(name: str) -> None:
    assert not is_worker_name(name)
    with pytest.raises(ProtocolFault, match="is no name of a worker"):
        encode(WorkersLeft(7, (name,)))


@pytest.mark.parametrize("name", ["w1", "initializer", "a.b-c_D", "x" * 128])
def test_a_good_worker_name_passes(name: str) -> None:
    assert is_worker_name(name)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (Ok(2**32), "4294967296 is no u32"),
        (Eos(-1), "-1 is no u64"),
        (MessageFrame(1, 0, 2**63, b"", b"x"), "is no i64"),
        (Notify(1, b"n" * 65536, 0), "65536 is no u16"),
        (ErrorFrame("\ud800"), "lone surrogates"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(frame: AnyFrame, words: str) -> None:
    with pytest.raises(ProtocolFault, match=words):
        encode(frame)


def test_a_large_announced_count_takes_no_memory() -> None:
    with pytest.raises(ProtocolFault, match="ends within"):
        decode(b"\x06\x00\x00\x00\x00\xff\xff\xff\xff" + bytes(16))


def test_names_of_frames_are_those_of_the_protocol() -> None:
    assert [name_of(kind) for kind in (Hello, NotifyAck, Eos, Phase1)] == ["HELLO", "NOTIFY_ACK", "EOS", "Phase1"]
