"""Leave out tests that need the packages of the extra `serve`, and say so in the last lines, if they are missing."""

from __future__ import annotations

import importlib.util

import pytest

from tests import closing

_MISSING = [name for name in ("grpc", "starlette", "uvicorn") if importlib.util.find_spec(name) is None]

collect_ignore_glob = ["test_*.py"] if _MISSING else []


def pytest_configure(config: pytest.Config) -> None:
    if _MISSING:
        line = f"CLIENT: NO TEST OF THE CLIENT WAS RUN, for these packages are missing: {', '.join(_MISSING)}"
        if line not in closing.lines(config):
            closing.lines(config).append(line)
