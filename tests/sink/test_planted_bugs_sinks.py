"""Plant bugs in sinks: the random stories find each. Some bugs need several partitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.planting import Bug
from tests.sink.test_oracle_sinks import into_a_file, into_a_topic

TOPIC, FILE = "sink.KafkaSink", "sink.FileSink"
_MOST = 300  # the most stories to try
BEYOND = "has_all(position, self._sent)"

IN_VALUES = [
    Bug("what may have been sent is sent anew", f"{TOPIC}._stand", "self._again = {}", "pass"),
    Bug("what was sent is held", f"{TOPIC}._stand", "(own for own, _ in held)", "(own for _, own in held)"),
    Bug("a position is beyond by its first number", f"{TOPIC}.holds", BEYOND, "position >= self._sent"),
    Bug("a position is beyond by any number", f"{TOPIC}.holds", BEYOND, "not has_all(self._sent, position)"),
    Bug("what comes again is held too soon", f"{TOPIC}.holds", "return  #", "pass  #"),
    Bug(
        "what another way gave beyond was never sent",
        f"{TOPIC}.write",
        "if self._again is not None:",
        "if self._again is not None and has_all(self._sent, changes[-1].position if changes else self._sent):",
    ),
    Bug("what is under way is held", f"{TOPIC}.holds", "self._flush()\n", "pass\n"),
]
IN_CHANGES = [
    Bug("what was sent beyond is forgotten", f"{TOPIC}._header", "joined(self._sent, position)", "position"),
]
IN_A_FILE = [
    Bug(
        "the rest of a killed run stays",
        f"{FILE}.begin",
        "os.ftruncate(self._file, self._end)",
        "self._end = os.fstat(self._file).st_size",
    ),
    Bug("a mark is moved over changes", f"{FILE}.write", "self._marked = None", "pass"),
    Bug("a mark has the first number alone", f"{FILE}.holds", "position_text(position)", "str(position[0])"),
]


def _found(story: Callable[[int], object]) -> bool:
    """Return whether some story fails."""
    for seed in range(_MOST):
        try:
            story(seed)
        except (AssertionError, KeyError, IndexError, ValueError, StopIteration):
            return True
    return False


@pytest.mark.parametrize("bug", [*IN_VALUES, *IN_CHANGES], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_in_a_topic(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert _found(lambda seed: into_a_topic(seed, 3, bug in IN_CHANGES, monkeypatch))


@pytest.mark.parametrize("bug", IN_A_FILE, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_in_a_file(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert _found(lambda seed: into_a_file(seed, 3, False, tmp_path / "out.jsonl", monkeypatch))
