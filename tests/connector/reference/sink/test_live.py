"""The live reference sink behaves as recorded. `PENSTOCK_WALLAROO` names its checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.connector.reference.histories import histories, refused
from tests.connector.reference.judgement import Step
from tests.connector.reference.sink import comparison
from tests.connector.reference.sink.cases import CASES, Case
from tests.connector.reference.sink.process import ReferenceSink
from tests.connector.reference.sink.test_planted_bugs import MISTAKES, planted
from tests.connector.reference.sink.test_transcripts import RECORDED
from tests.connector.reference.sink.transcripts import recorded


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
