"""The live reference sink behaves as recorded. `PENSTOCK_WALLAROO` names its checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from penstock.connector import AnyFrame, CommitMessage, encode
from tests.connector.frame_tuples import tuple_of
from tests.connector.reference.frames import Frame
from tests.connector.reference.histories import histories, refused
from tests.connector.reference.judgement import Step
from tests.connector.reference.sink import comparison
from tests.connector.reference.sink.cases import CASES, Case
from tests.connector.reference.sink.process import ReferenceSink, codec
from tests.connector.reference.sink.test_planted_bugs import MISTAKES, planted
from tests.connector.reference.sink.test_transcripts import RECORDED
from tests.connector.reference.sink.transcripts import recorded
from tests.connector.test_frames import frames

FRAMES = {
    "hello": "Hello",
    "ok": "Ok",
    "error": "Error",
    "notify": "Notify",
    "notify_ack": "NotifyAck",
    "message": "Message",
    "ack": "Ack",
    "restart": "Restart",
    "eos": "EosMessage",
}
COMMIT_MESSAGES = {
    "list": "ListUncommitted",
    "uncommitted": "ReplyUncommitted",
    "phase1": "TwoPCPhase1",
    "vote": "TwoPCReply",
    "phase2": "TwoPCPhase2",
    "workers_left": "WorkersLeft",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_runs_as_recorded(case: Case, tmp_path: Path) -> None:
    assert recorded(case, tmp_path) == RECORDED[case.name]


def test_drawn_histories_agree_with_the_oracle(tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=25)
    @given(histories(live=True))
    def agree(history: list[Step]) -> None:
        with ReferenceSink(tmp_path_factory.mktemp("sink"), refused(history), ("w1", "w2")) as sink:
            comparison.compared(history, sink)

    agree()


def test_a_mistake_in_the_oracle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "Oracle", planted(*MISTAKES["an abort keeps the bytes"]))
    history = next(case.history for case in CASES if case.name == "abort")
    with ReferenceSink(tmp_path) as sink, pytest.raises(comparison.Disagreement, match="step 6, 1"):
        comparison.compared(history, sink)


def reference_bytes(frame: Frame) -> bytes:
    """Encode a frame with the codec of the checkout."""
    word, *fields = frame
    if word in FRAMES:
        return bytes(codec().Frame.encode(getattr(codec(), FRAMES[word])(*fields)))
    if word in ("vote", "phase2"):  # that codec encodes ids as bytes only, and decodes them to text
        fields[0] = fields[0].encode()
    body = codec().TwoPCFrame.encode(getattr(codec(), COMMIT_MESSAGES[word])(*fields))
    return reference_bytes(("message", 0, 0, 0, None, body))


def reference_frame(data: bytes) -> Any:
    """Decode a frame with the codec of the checkout."""
    found = codec().Frame.decode(data[4:])
    is_inner = type(found).__name__ == "Message" and found.stream_id == 0
    return codec().TwoPCFrame.decode(found.message) if is_inner else found


@given(frames)
def test_the_codec_of_the_checkout_agrees(frame: AnyFrame | CommitMessage) -> None:
    """Two cases are left out: the checkout can't encode a phase 1, nor decode an answer to the list."""
    word, *fields = tuple_of(frame)
    data = encode(frame)
    if word != "phase1":
        assert reference_bytes((word, *fields)) == data
    if word != "uncommitted":
        found = reference_frame(data)
        assert type(found).__name__ == (FRAMES | COMMIT_MESSAGES)[word]
        if word == "message":
            fields[4] = fields[4] or None
        assert found == type(found)(*fields)
