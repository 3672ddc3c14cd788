"""How a small disk can be had where the tests run; what stood in for one is said at the end of a run."""

from __future__ import annotations

import pytest

from tests.faults.smalldisk import Disk, possible

_KIND = pytest.StashKey[Disk]()


@pytest.fixture(scope="session")
def disk(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    found = possible(tmp_path_factory.mktemp("disks"))
    pytestconfig.stash[_KIND] = found
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(_KIND, None) is Disk.LIMITED:
        terminalreporter.section("no full disk was tried", red=True, bold=True)
        terminalreporter.line(
            "tests/faults may neither mount a small tmpfs nor make a namespace here; a limit on the size of files "
            "stood in for it. Run them once as root, or where user namespaces are allowed."
        )
