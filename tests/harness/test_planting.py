"""A planted bug must replace a text that is there, by code that its module can run."""

import pytest

from tests.harness.planting import Bug


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("state.position +", "state.position -", "has no 'state.position \\+'"),
        ("old.position + writes", "old.position + unknown", "has no unknown: plant this bug anew"),
    ],
)
def test_a_bug_that_would_never_run_is_refused(
    old: str, new: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = Bug("positions go wrong", "core.metadata.store_state:state_after", old, new)
    with pytest.raises(AssertionError, match=message):
        bug.plant(monkeypatch)
