"""Streams against the serial oracle: drawn histories in several cuts, with commits that fail."""

from __future__ import annotations

import pytest

from tests.flow.histories import run


@pytest.mark.parametrize("seed", [2, 3])
def test_any_cut_of_a_history_agrees_with_the_serial_oracle(seed: int) -> None:
    run(seed)
