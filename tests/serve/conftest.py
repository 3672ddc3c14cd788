"""Leave out tests that need the packages of the extra `serve`, and say so in the last lines, if they are missing."""

from __future__ import annotations

import importlib.util

import pytest

from tests import closing
from tests.serve.browser.browser import missing
from tests.serve.clients import programs

_NEEDED = ("starlette", "uvicorn", "httptools", "uvloop", "prometheus_client", "grpc", "jinja2")
_MISSING = [name for name in _NEEDED if importlib.util.find_spec(name) is None]

_FOLDERS = ("access", "browser", "clients", "console", "grpc", "http", "metrics", "operations", "tls")
collect_ignore_glob = [f"{name}/*" for name in _FOLDERS] + ["test_*.py"] if _MISSING else []
_NO_BROWSER = missing()


def pytest_configure(config: pytest.Config) -> None:
    if _NO_BROWSER:
        _say(config, f"CONSOLE: NO TEST RAN IN A BROWSER, for these are missing: {', '.join(_NO_BROWSER)}")
    for reason in filter(None, map(programs.missing, programs.LANGUAGES)):
        _say(config, f"CLIENTS: {reason}")
    if _MISSING:
        _say(config, f"SERVE: NO TEST OF THE SERVER WAS RUN, for these packages are missing: {', '.join(_MISSING)}")


def _say(config: pytest.Config, line: str) -> None:
    if line not in closing.lines(config):
        closing.lines(config).append(line)
