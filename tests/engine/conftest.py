"""Where an engine of a test stands: in memory or on disk; and one with its oracle beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from tests.engine.beside import WORLD, Beside


@pytest.fixture(params=["memory", "lmdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state" if request.param == "lmdb" else None


@pytest.fixture
def both(place: Path | None) -> Iterator[Beside]:
    with ps.open(WORLD.app(), place) as engine:
        yield Beside(engine, WORLD)
