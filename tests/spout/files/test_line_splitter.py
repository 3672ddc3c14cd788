"""Split bytes to lines: the lines are the same for all ways to cut the bytes into pieces."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spout.files import line_splitter as module
from penstock.spout.files.file_identity import BLOCK
from penstock.spout.files.line_splitter import LineSplitter


class Pieces:
    """A stream that returns these pieces. None means that no bytes came in time."""

    def __init__(self, *pieces: bytes | None) -> None:
        self.pieces = list(pieces)
        self.waits: list[float] = []

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        self.waits.append(wait)
        return self.pieces.pop(0) if self.pieces else b""

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        raise NotImplementedError

    def left(self) -> int | None:
        return None


def test_lines_come_without_their_line_feed() -> None:
    lines = LineSplitter(Pieces(b"a\nb\r\n\nc"))
    assert lines.take(10, 0.0) == [b"a", b"b\r", b""]
    assert lines.at_end
    assert lines.unended
    assert lines.take_rest() == b"c"
    assert not lines.unended


def test_a_line_waits_for_its_end() -> None:
    lines = LineSplitter(Pieces(b"a\nb", b"", b"c\n"))
    assert lines.take(10, 0.0) == [b"a"]
    assert lines.take(10, 0.0) == [b"bc"]
    assert not lines.unended


def test_take_returns_at_most_the_limit() -> None:
    lines = LineSplitter(Pieces(b"a\nb\nc\n"))
    assert [lines.take(2, 0.0), lines.at_end, lines.take(2, 0.0), lines.at_end] == [[b"a", b"b"], False, [b"c"], True]


def test_available_lines_do_not_wait_long() -> None:
    stream = Pieces(b"a\n", None)
    lines = LineSplitter(stream)
    assert lines.take(10, 5.0) == [b"a"]
    assert stream.waits[0] == 5.0
    assert stream.waits[1] < 0.1
    assert not lines.at_end, "nothing came in time, which is no end"


def test_lines_that_are_given_back_come_again() -> None:
    lines = LineSplitter(Pieces(b"a\nb\nc\n"))
    taken = lines.take(2, 0.0)
    lines.give_back(taken[1:])
    assert lines.take(5, 0.0) == [b"b", b"c"]


@given(text=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n"])).map(b"".join), sizes=st.lists(st.integers(1, 4)))
def test_pieces_do_not_affect_the_lines(text: bytes, sizes: list[int]) -> None:
    pieces, at = [], 0
    for size in [*sizes, len(text)]:
        pieces += [text[at : at + size]] if text[at : at + size] else []
        at += size
    lines, found = LineSplitter(Pieces(*pieces)), []
    while part := lines.take(3, 0.0):
        found += part
    assert [*found, lines.take_rest()] == text.split(b"\n")


@pytest.mark.parametrize("piece", [1, 7, 100, 10_000])
def test_a_line_that_is_too_long_is_skipped(piece: int) -> None:
    text = b"a\n" + b"first" + b"x" * 90 + b"last" + b"\nb\nc\n"
    with mock.patch.object(module, "MOST_LINE", 50):
        lines, found = LineSplitter(Pieces(*(text[i : i + piece] for i in range(0, len(text), piece)))), []
        for _ in range(10):
            found += lines.take(2, 0.0)
            huge = lines.huge()
            if huge is not None:
                assert huge.size == 99
                assert huge.first.startswith(b"first")
                assert huge.last.endswith(b"last")
                assert len(huge.first) <= BLOCK
                found.append(b"<huge>")
    if piece < 50:
        assert found == [b"a", b"<huge>", b"b", b"c"]
    else:
        assert found[:1] + found[2:] == [b"a", b"b", b"c"], "one that lies in a piece is the engine's to refuse"
