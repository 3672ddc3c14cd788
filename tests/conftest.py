"""What every test has: Hypothesis profiles and a path for a store.

The default profile, `ci`, draws the same examples in every run, so that a failure is a property of the tree and not of
the day. `HYPOTHESIS_PROFILE=search` draws other ones, and more, in every run.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines that run tests are shared and slow by turns: time is no criterion of an example.
_QUIET = [HealthCheck.too_slow]

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=60, stateful_step_count=25, suppress_health_check=_QUIET
)
settings.register_profile(
    "search", deadline=None, max_examples=2_000, stateful_step_count=50, suppress_health_check=_QUIET, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A path where no store is yet."""
    return tmp_path / "store"
