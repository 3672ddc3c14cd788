"""The reader and writer of the tests agree with the vectors, and with frames that are cut or joined."""

from __future__ import annotations

import pytest

from tests.connector.reference.frames import Frame, decoded, encoded, split
from tests.connector.reference.vectors import VECTORS


@pytest.mark.parametrize(("frame", "raw"), VECTORS.values(), ids=VECTORS)
def test_a_vector_is_written_and_read(frame: Frame, raw: bytes) -> None:
    assert encoded(frame) == raw
    assert split(raw) == ([frame], b"")


def test_there_are_26_vectors() -> None:
    assert list(VECTORS) == [f"V{number:02}" for number in range(1, 27)]


def test_frames_are_split_at_every_byte() -> None:
    stream = b"".join(raw for _, raw in VECTORS.values())
    frames = [frame for frame, _ in VECTORS.values()]
    for cut in range(len(stream) + 1):
        first, rest = split(stream[:cut])
        assert first + split(rest + stream[cut:])[0] == frames


@pytest.mark.parametrize("raw", [b"", b"\x09", b"\x63abc", b"\x00\x00", b"\x05" + bytes(26), b"\x05" + bytes(27)])
def test_bytes_that_are_no_frame_stay_raw(raw: bytes) -> None:
    assert decoded(raw) == ("raw", raw)
    assert encoded(("raw", raw)) == len(raw).to_bytes(4, "big") + raw


def test_a_restart_without_a_body_has_no_address() -> None:
    assert decoded(b"\x07") == ("restart", None)
