"""Find the best small disk that the system permits. The end of a run reports a replacement."""

from __future__ import annotations

import pytest

from tests import closing
from tests.faults.smalldisk import Disk, possible

_LIMITED = """no full disk was tried: tests/faults may neither mount a small tmpfs nor make a namespace here; a limit on
the size of files stood in for it. Run them once as root, or where user namespaces are allowed."""


@pytest.fixture(scope="session")
def disk(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    found = possible(tmp_path_factory.mktemp("disks"))
    if found is Disk.LIMITED:
        closing.lines(pytestconfig).append(_LIMITED)
    return found
