"""Settings of all tests: Hypothesis profiles, a path for a store, and the process in which a test runs.

The default profile, `ci`, draws the same examples in every run. So a failure depends on the tree only, not on the run.
`HYPOTHESIS_PROFILE=search` draws other and more examples in each run.

`make test` runs tests in several processes. The tests of one file share a process, since they may share fixtures that
are costly to make. Tests with a broker or with a Spark session share one process per folder.
"""

import compileall
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import closing
from tests.waiting import PATIENCE

# A shell starts background jobs with SIGINT ignored, and their children inherit that. Tests interrupt children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Test machines are shared, and slow at times: an example may take any time.
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
    """Return a path where no store exists yet."""
    return tmp_path / "store"


_ONE_PROCESS = ("kafka", "spark")  # folders, whose clients keep threads for all their files
_TESTS = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def threads_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a file whose threads outlive it. Otherwise a test of another file that counts threads fails by chance."""
    before = set(threading.enumerate())
    yield
    started = set(threading.enumerate()) - before
    if request.path.relative_to(_TESTS).parts[0] not in _ONE_PROCESS:
        for thread in started:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{request.path} leaves the thread {thread.name}, of {len(started)} threads"


def pytest_configure(config: pytest.Config) -> None:
    """Compile the code that child processes import.

    Otherwise each of them compiles it again where PYTHONDONTWRITEBYTECODE is set, which doubles its CPU time.
    """
    if not hasattr(config, "workerinput"):
        for folder in ("penstock", "bench", "examples", "tests"):
            compileall.compile_dir(_TESTS.parent / folder, quiet=2, rx=re.compile("/test_"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        place = item.path.relative_to(_TESTS)
        item.add_marker(pytest.mark.xdist_group(place.parts[0] if place.parts[0] in _ONE_PROCESS else str(place)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    closing.handed_on(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    closing.taken(node.config, getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in closing.lines(config):
        terminalreporter.write_line(line)
