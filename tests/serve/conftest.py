"""Leave out tests that need the packages of the extra `serve`, and say so in the last lines, if they are missing."""

from __future__ import annotations

import importlib.util

import pytest

from tests import closing

_NEEDED = ("starlette", "uvicorn", "httptools", "uvloop", "prometheus_client", "grpc", "jinja2")
_MISSING = [name for name in _NEEDED if importlib.util.find_spec(name) is None]

collect_ignore_glob = (
    [f"{name}/*" for name in ("access", "browser", "console", "grpc", "http", "metrics", "operations", "tls")]
    + ["test_*.py"]
    if _MISSING
    else []
)


def pytest_configure(config: pytest.Config) -> None:
    if _MISSING:
        line = f"SERVE: NO TEST OF THE SERVER WAS RUN, for these packages are missing: {', '.join(_MISSING)}"
        if line not in closing.lines(config):
            closing.lines(config).append(line)
