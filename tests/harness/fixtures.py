"""Fixtures of engines: in memory, on disk, and with an oracle beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.cache import Limits
from penstock.engine import copy_of
from tests.harness.beside import WORLD, Beside
from tests.partitions.copies.copied import filled


@pytest.fixture(params=["memory", "lmdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state" if request.param == "lmdb" else None


@pytest.fixture(params=["few", "columns"])
def both(request: pytest.FixtureRequest, place: Path | None) -> Iterator[Beside]:
    with ps.open(WORLD.app(), place, limits=Limits() if request.param == "few" else Limits(few=0)) as engine:
        yield Beside(engine, WORLD)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a store that tests must not change."""
    folder = tmp_path_factory.mktemp("made")
    filled(folder / "store")
    copy_of(str(folder / "store"), str(folder / "copy"))
    return folder / "copy"
