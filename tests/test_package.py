"""The package imports its names on demand. They are the names that its rooms export."""

import subprocess
import sys

import pytest

import penstock
from penstock import engine, mapreduce


def test_importing_it_imports_no_room() -> None:
    code = "import sys, penstock; print(*[m for m in sys.modules if m.startswith(('penstock.', 'numpy', 'lmdb'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_name_is_the_one_of_its_room() -> None:
    assert penstock.open is engine.open_engine
    assert penstock.count is mapreduce.count
    assert penstock.Engine is engine.Engine
    assert set(penstock.__all__) <= set(dir(penstock))


def test_every_name_can_be_imported_first() -> None:
    code = "import sys; from penstock import *; assert open.__module__ == 'penstock.engine.opening', open"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'opne'"):
        getattr(penstock, "opne")  # noqa: B009
