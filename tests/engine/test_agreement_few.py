"""A small batch and a batch of columns agree in counts, rows, bytes and memory after every step."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import two_sizes
from tests.harness.two_sizes import TwoSizes


@given(choose=st.randoms(use_true_random=False), odd=st.sampled_from([0.0, 0.08, 0.3]))
def test_both_sizes_leave_the_same(choose: Random, odd: float) -> None:
    TwoSizes(choose, odd).run(20)


@pytest.mark.parametrize("seed", range(8))
def test_both_sizes_leave_the_same_over_long_histories(seed: int) -> None:
    two_sizes.run(seed, 150)
