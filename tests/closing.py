"""The last lines of a test run, for example the replacements of missing tools. Tests may run in several processes."""

from __future__ import annotations

import pytest

_LINES = pytest.StashKey[list[str]]()
_HERE = "closing"  # lines that a test process hands to its parent


def lines(config: pytest.Config) -> list[str]:
    """Return the lines of this process. A caller may add to them."""
    return config.stash.setdefault(_LINES, [])


def handed_on(config: pytest.Config) -> None:
    """Hand the lines of this process to its parent, if it has one."""
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_HERE] = lines(config)


def taken(config: pytest.Config, output: dict[str, object]) -> None:
    """Add the lines of a child process, each once."""
    told = output.get(_HERE, [])
    assert isinstance(told, list)
    own = lines(config)
    own += [line for line in told if line not in own]
