"""The packages of the extra are imported when a server begins, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.cache import MissingExtra
from penstock.serve.first_process import must_be_installed

HEAVY = "('starlette', 'uvicorn', 'uvloop', 'httptools', 'prometheus', 'grpc', 'google', 'jinja2')"


@pytest.mark.parametrize(
    "code",
    [
        "import penstock; penstock.open",
        "import penstock.serve",
        "from click.testing import CliRunner; from penstock.cli.commands.serve import serve; "
        "done = CliRunner().invoke(serve, ['--help']); assert 'Serve the store' in done.output",
    ],
)
def test_nothing_of_it_is_imported_before(code: str) -> None:
    looked = f"{code}; import sys; print(*[m for m in sys.modules if m.startswith({HEAVY})])"
    done = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match=r"pip install 'penstock\[serve\]'"):
        must_be_installed()
