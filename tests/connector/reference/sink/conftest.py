"""Leave out the tests with the live reference programs where no checkout of it is named, and report that at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import closing
from tests.connector.reference.sink.process import VARIABLE

_LIVE = {
    "test_live.py": "transcripts replace it",
    "test_live_coordinator.py": "transcripts replace it",
    "test_live_source.py": "tests/spout has the same cuts with a source of its own",
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.name not in _LIVE or os.environ.get(VARIABLE):
        return None
    lines = closing.lines(config)
    name = f"connector/reference/sink/{collection_path.name}"
    line = f"{name} is left out, since {VARIABLE} names no checkout; {_LIVE[collection_path.name]}"
    if line not in lines:
        lines.append(line)
    return True
