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
    for frame, raw in VECTORS.values():
        for cut in range(len(raw)):
            assert split(raw + raw[:cut]) == ([frame], raw[:cut])
    assert split(b"".join(raw for _, raw in VECTORS.values())) == ([frame for frame, _ in VECTORS.values()], b"")


@pytest.mark.parametrize("raw", [b"", b"\x09", b"\x63abc", b"\x00\x00", b"\x05" + bytes(26), b"\x05" + bytes(27)])
def test_bytes_that_are_no_frame_stay_raw(raw: bytes) -> None:
    assert decoded(raw) == ("raw", raw)
    assert encoded(("raw", raw)) == len(raw).to_bytes(4, "big") + raw


def test_a_restart_without_a_body_has_no_address() -> None:
    assert decoded(b"\x07") == ("restart", None)
