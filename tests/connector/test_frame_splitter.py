"""The splitter of frames: cuts at every byte, limits, and memory."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector import LARGEST_FRAME, LARGEST_HELLO, FrameSplitter, MessageFrame, ProtocolFault, encode
from tests.connector.reference.vectors import VECTORS

STREAM = b"".join(data for _, data in VECTORS.values())
PAYLOADS = [data[4:] for _, data in VECTORS.values()]


def pulled(splitter: FrameSplitter) -> list[bytes]:
    return list(iter(splitter.next, None))


def test_frames_are_the_same_when_cut_at_every_byte() -> None:
    for cut in range(len(STREAM) + 1):
        splitter = FrameSplitter(LARGEST_HELLO)
        splitter.feed(STREAM[:cut])
        found = pulled(splitter)
        splitter.feed(STREAM[cut:])
        assert found + pulled(splitter) == PAYLOADS
        assert splitter.waiting == 0


def test_frames_are_the_same_when_bytes_come_one_by_one() -> None:
    splitter, found = FrameSplitter(LARGEST_HELLO), []
    for at in range(len(STREAM)):
        splitter.feed(STREAM[at : at + 1])
        found += pulled(splitter)
    assert found == PAYLOADS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_frames_are_the_same_for_any_pieces(cuts: list[int]) -> None:
    splitter, found = FrameSplitter(LARGEST_HELLO), []
    for start, end in pairwise([0, *sorted(cuts), len(STREAM)]):
        splitter.feed(STREAM[start:end])
        if end % 3:
            found += pulled(splitter)
    assert found + pulled(splitter) == PAYLOADS


def test_a_frame_of_length_0_is_refused() -> None:
    splitter = FrameSplitter(LARGEST_HELLO)
    splitter.feed(bytes(4))
    with pytest.raises(ProtocolFault, match="length 0"):
        splitter.next()


def test_a_frame_above_the_limit_is_refused_by_its_length_alone() -> None:
    splitter = FrameSplitter(LARGEST_HELLO)
    splitter.feed((LARGEST_HELLO + 1).to_bytes(4, "big"))
    with pytest.raises(ProtocolFault, match=r"has 65,537 bytes, and the limit is 65,536"):
        splitter.next()


def test_a_frame_at_the_limit_passes() -> None:
    splitter = FrameSplitter(LARGEST_HELLO)
    splitter.feed(LARGEST_HELLO.to_bytes(4, "big") + bytes(LARGEST_HELLO))
    assert splitter.next() == bytes(LARGEST_HELLO)


def test_the_default_limit_holds_the_largest_document() -> None:
    data = encode(MessageFrame(1, 0, 0, b"", bytes(16 << 20)))
    assert len(data) == 4 + LARGEST_FRAME


def test_the_limit_may_change_between_two_frames() -> None:
    splitter = FrameSplitter(4)
    splitter.feed(b"\0\0\0\x04abcd\0\0\0\x05abcde")
    assert splitter.next() == b"abcd"
    splitter.limit = 5
    assert splitter.next() == b"abcde"


@given(st.binary(max_size=60))
def test_any_bytes_are_frames_or_a_protocol_fault(data: bytes) -> None:
    splitter = FrameSplitter(32)
    splitter.feed(data)
    try:
        found = pulled(splitter)
    except ProtocolFault:
        return
    assert sum(4 + len(payload) for payload in found) + splitter.waiting == len(data)
