"""Cut the power at any moment: acknowledged records are there, nothing counts twice, and writing can continue.

A process records all its writes and syncs. Images are made from the record. Each is opened in a process of its own,
since LMDB follows the pages as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.cache.processes import in_fork
from tests.faults import power, shop

BATCHES, SIZE, DOCUMENTS = 7, 8, 60
IMAGES = 20


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return power.built("recorder.c", tmp_path_factory.mktemp("recorder"))


def recorded(library: Path, folder: Path, *how: str) -> list[power.Entry]:
    return power.record(library, folder / "log", "tests.faults.power_writer", str(folder / "written"), *how)


def after(folder: Path, image: bytes, check: Callable[[Path], int]) -> str:
    """Check an image in a process of its own. Return its output, which is empty if the process died."""
    store = folder / "image"
    store.mkdir(exist_ok=True)
    for name in ("lock.mdb", "owner"):
        (store / name).unlink(missing_ok=True)
    (store / "data.mdb").write_bytes(image)
    return in_fork(lambda: check(store))


def check_all(record: list[power.Entry], folder: Path, seed: str, check: Callable[[Path, int], int]) -> set[int]:
    """Check images of the whole record. Return the numbers of stored batches."""
    found: set[int] = set()
    for what, least, image in power.images(record, Random(seed), IMAGES):
        said = after(folder, image, lambda store, least=least: check(store, least))
        assert said.isdecimal(), f"{what}, {least} acknowledged: {said or 'the process that opened it died'}"
        found.add(int(said))
    return found


def test_batches_that_were_acknowledged_are_there(library: Path, tmp_path: Path) -> None:
    record = recorded(library, tmp_path, "sync", str(BATCHES), str(SIZE))
    prepared()
    found = check_all(record, tmp_path, "sync", lambda store, least: shop.check_batches(store, least, BATCHES, SIZE))
    assert len(found) > BATCHES // 2, "power went between and in most batches"


def prepared() -> None:
    """Compute the results of the oracle that all forks use."""
    shop.digest_after(BATCHES, SIZE)
    for number in range(BATCHES + 1):
        shop.model_after(number, SIZE)


def test_documents_whose_tickets_were_done_are_there(library: Path, tmp_path: Path) -> None:
    record = recorded(library, tmp_path, "group", str(DOCUMENTS), "0")
    found = check_all(record, tmp_path, "tickets", shop.check_puts)
    assert len(found) > 4, "power went between and in several commits"


def test_the_record_is_the_file(library: Path, tmp_path: Path) -> None:
    """Every write to the file went through the recorder."""
    disk = power.Disk()
    for entry in recorded(library, tmp_path, "sync", str(BATCHES), str(SIZE)):
        disk.take(entry)
    assert not disk.pending, "all is synced at the end"
    assert bytes(disk.synced) == (tmp_path / "written" / "data.mdb").read_bytes()


def test_a_store_that_does_not_sync_is_found_out(library: Path, tmp_path: Path) -> None:
    """A planted bug: LMDB is opened without syncing."""
    record = recorded(library, tmp_path, "sync", str(BATCHES), str(SIZE), "unsynced")
    prepared()
    wrong = 0
    for _, least, image in power.images(record, Random(1), 10):
        said = after(tmp_path, image, lambda store, least=least: shop.check_batches(store, least, BATCHES, SIZE))
        wrong += not said.isdecimal()
    assert wrong > 3
