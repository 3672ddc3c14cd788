"""The live reference sink behaves as recorded. `PENSTOCK_WALLAROO` names its checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connector.reference.sink.cases import CASES, Case
from tests.connector.reference.sink.test_transcripts import RECORDED
from tests.connector.reference.sink.transcripts import recorded


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_runs_as_recorded(case: Case, tmp_path: Path) -> None:
    assert recorded(case, tmp_path) == RECORDED[case.name]
