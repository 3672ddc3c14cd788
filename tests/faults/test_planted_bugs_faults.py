"""Plant bugs in the handling of faults. The tests of each fault find them, with the right message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.core import FORMAT
from tests.core.crash import crash_writer as writer
from tests.faults import everykind, shop, test_bit_flips, test_format
from tests.faults.everykind import Damaged, opened, read
from tests.harness.planting import Bug, Edit
from tests.recovery.repair import test_emission_repair


@dataclass(frozen=True)
class World:
    """The stores that the tests start with: one with rows of every kind and the results of its reads, and a shop."""

    whole: Path
    names: dict[str, str]
    read: dict[str, Any]
    folder: Path

    def bits(self, kind: str) -> None:
        """Flip bits in the rows of a kind."""
        self.folder.mkdir()
        damaged = Damaged(self.whole, self.folder)
        test_bit_flips.test_a_turned_bit_is_named_and_never_served(kind, damaged, self.names, self.read)

    def lost(self) -> None:
        """Lose most of an index."""
        with test_emission_repair.folding() as engine:
            test_emission_repair.test_an_index_is_made_anew(test_emission_repair.lose, engine)

    def newer(self) -> None:
        """Make a store of a newer format."""
        with shop.opened(self.folder) as engine:
            for _ in writer.write(engine, 0, test_format.BATCHES, test_format.SIZE):
                pass
        test_format.test_a_newer_format_is_refused_and_not_touched(
            self.folder, lambda said: {**said, "format": FORMAT + 1}
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    path = tmp_path_factory.mktemp("made") / "store"
    everykind.fill(path)
    names = everykind.names_of(path)
    with opened(path) as engine:
        return World(path, names, read(engine), path)


@dataclass(frozen=True)
class Planted:
    """A bug, the test that finds it, and the message of the failure."""

    bug: Bug
    by: Callable[[World], None]
    why: str


BUGS = [
    Planted(
        Bug(
            "checksums of many rows are not looked at",
            "cache.encoding.checksum:unseal_many",
            "if row[-_SIZE:] !=",
            "if False and row[-_SIZE:] !=",
        ),
        lambda world: world.bits("told"),
        "the next step is left open",  # the decoder failed on it first
    ),
    Planted(
        Bug(
            "the checksum of one row is not looked at",
            "cache.encoding.checksum:unseal",
            "if row[-_SIZE:] !=",
            "if False and row[-_SIZE:] !=",
        ),
        lambda world: world.bits("resting"),
        "the check has passed over it",
    ),
    Planted(
        Bug(
            "lines of the log are not checked",
            "cache.log.segment:Segment.lines",
            "!= crc:",
            "!= crc and False:",
            Edit(
                "cache.log.segment:Segment._lines_of_few", "!= self._crcs.item(0):", "!= self._crcs.item(0) and False:"
            ),
        ),
        lambda world: world.bits("log"),
        "served",
    ),
    Planted(
        Bug("damage is named by no place", "cache.store.damage:named", "if place is None:", "if True:"),
        lambda world: world.bits("held"),
        "the next step is left open",
    ),
    Planted(
        Bug(
            "keys that an index lost are passed over",
            "recovery.check.store_check:Check._as_counted",
            "if found != expected and",
            "if False and",
        ),
        World.lost,
        "compared once these are repaired",  # the whole message: it does not name the index
    ),
    Planted(
        Bug(
            "a newer format is opened",
            "core.metadata.store_format:must_be_readable",
            "if found not in _READABLE:",
            "if False:",
        ),
        World.newer,
        "DID NOT RAISE",
    ),
]


def found(by: Callable[[World], None], world: World) -> str | None:
    """Return the message of the failure, or None."""
    try:
        by(world)
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_none_is_found_where_none_is_planted(made: World, tmp_path: Path) -> None:
    for n, planted in enumerate(BUGS):
        world = World(made.whole, made.names, made.read, tmp_path / str(n))
        assert found(planted.by, world) is None, planted.bug.name


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.bug.name)
def test_each_is_found_for_what_it_is(
    planted: Planted, made: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.bug.plant(monkeypatch)
    said = found(planted.by, World(made.whole, made.names, made.read, tmp_path / "found"))
    assert said is not None, "nothing found it"
    assert re.search(planted.why, said), said
