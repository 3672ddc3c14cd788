"""What the last lines of a run say of it: which stand-in a test took, for one. Tests may run in several processes."""

from __future__ import annotations

import pytest

_LINES = pytest.StashKey[list[str]]()
_HERE = "closing"  # what a process of tests tells the one that began it


def lines(config: pytest.Config) -> list[str]:
    """What is said in this process, to be added to."""
    return config.stash.setdefault(_LINES, [])


def handed_on(config: pytest.Config) -> None:
    """In a process that another one began: leave it what is said here."""
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_HERE] = lines(config)


def taken(config: pytest.Config, output: dict[str, object]) -> None:
    """Say what a process said that was begun here, each line once."""
    told = output.get(_HERE, [])
    assert isinstance(told, list)
    own = lines(config)
    own += [line for line in told if line not in own]
