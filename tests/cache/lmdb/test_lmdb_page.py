"""Read pages of a data file without LMDB: a sound file passes, and each kind of damage is named."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cache import StoreDamaged, open_lmdb, scrub_pages
from penstock.cache.lmdb.lmdb_page import DATA, PageDamaged, Pages, TooOld
from penstock.cache.lmdb.lmdb_store import LmdbStore
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.cache.lmdb.page_scrub import Scrub
from tests.waiting import PATIENCE

PAGE = 4096


def write(store: LmdbStore, rng: random.Random, keys: int) -> None:
    """Run one transaction of puts, deletions and an emptied database, with values of any size."""
    with store.write() as txn:
        for db in ("wide", "long", "gone"):
            width = 400 if db == "long" else 8
            chosen = [b"%0*d" % (width, rng.randrange(10**6)) for _ in range(keys)]
            txn.put_many(db, [(key, bytes(rng.choice([0, 9, 100, 3_000, 9_000]))) for key in chosen])
            txn.delete_many(db, rng.sample(chosen, keys // 3))
        if rng.random() < 0.3:
            txn.clear("gone")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return sound_file(tmp_path_factory.mktemp("sound"))


def sound_file(path: Path) -> bytes:
    """Return the bytes of a file with all forms of trees, and with free pages."""
    store = open_lmdb(path)
    rng = random.Random(5)
    for _ in range(6):
        write(store, rng, 60)
    store.close()
    return (path / DATA).read_bytes()


def scrubbed(store: LmdbStore) -> Scrub:
    """Return a scrub of a store."""
    scrub = scrub_pages(store.read)
    assert scrub is not None
    return scrub


def found_in(path: Path, data: bytes) -> list[str]:
    """Return the damage that a scrub finds, or that the opening reports before it."""
    path.mkdir(exist_ok=True)
    (path / DATA).write_bytes(data)
    try:
        store = open_lmdb(path, readonly=True)
    except StoreDamaged as damage:
        return [str(damage)]
    try:
        return [str(damage) for damage in scrubbed(store).found]
    finally:
        store.close()


def test_sound_files_pass_after_every_transaction(tmp_path: Path) -> None:
    store = open_lmdb(tmp_path)
    rng = random.Random(1)
    for _ in range(25):
        write(store, rng, rng.choice([3, 40]))
        assert scrubbed(store).found == []
    passed: list[tuple[int, int]] = []
    scrub_pages(store.read, lambda done, total: passed.append((done, total)))
    assert passed == sorted(passed)
    assert passed[-1][0] <= passed[-1][1]
    store.close()


def test_a_walk_begins_again_when_the_map_has_to_grow(tmp_path: Path) -> None:
    store = open_lmdb(tmp_path, map_size=1 << 20)
    with store.write() as txn:
        txn.put_many("few", [(b"Joe", b"1")])
    rows = [(b"%08d" % n, bytes(3_000)) for n in range(1_000)]

    def put() -> None:
        with store.write() as txn:
            txn.put_many("many", rows)

    writing, pause = threading.Thread(target=put), threading.Event()

    def progress(done: int, total: int) -> None:
        if writing.ident is None:
            writing.start()
            while writing.is_alive() and not store._env.held:
                pause.wait(0.01)

    assert scrub_pages(store.read, progress) is not None
    writing.join(PATIENCE)
    with store.read() as snap:
        assert snap.count("many") == 1_000
    assert store.info()["map_size"] > 1 << 20
    store.close()


def test_a_snapshot_is_walked_while_others_write(tmp_path: Path) -> None:
    store = open_lmdb(tmp_path)
    rng = random.Random(2)
    write(store, rng, 40)
    with store.read() as snap, snap.pages() as pages:
        seen = pages.new_marks()
        for _ in range(5):
            write(store, rng, 40)
        trees = pages.databases(seen)
        rows = {name: [key for page in pages.leaves(name, trees[name], seen) for key in page.keys] for name in trees}
        assert rows == {name: [key for key, _ in snap.scan(name)] for name in trees}
        with pytest.raises(TooOld):
            snap.pages()
    store.close()


def header(data: bytes, kind: int, least: int = 2) -> int:
    """Return the start of the first page of a kind with so many nodes: 1 a branch, 2 a leaf, 4 an overflow page."""
    for start in range(2 * PAGE, len(data), PAGE):
        number, _, flags, lower, _ = struct.unpack_from("=QHHHH", data, start)
        if number * PAGE == start and flags == kind and (kind == 4 or (lower - 16) // 2 >= least):
            return start
    raise AssertionError("no such page")


def live(data: bytes, path: Path, db: str, leaf: bool) -> int:
    """Return the start of a branch or leaf page of a database."""
    path.mkdir(exist_ok=True)
    (path / DATA).write_bytes(data)
    with Pages(str(path)) as pages:
        tree = pages.databases(pages.new_marks())[db]
        if not leaf:
            return tree.root * PAGE
        return next(page.number for page in pages.leaves(db, tree, pages.new_marks()) if len(page.keys) > 2) * PAGE


def put(data: bytes, at: int, form: str, *values: int) -> bytes:
    out = bytearray(data)
    struct.pack_into("=" + form, out, at, *values)
    return bytes(out)


def node(data: bytes, page: int, place: int) -> int:
    """Return the start of a node."""
    return page + struct.unpack_from("=H", data, page + 16 + 2 * place)[0]


def swapped(data: bytes, page: int) -> bytes:
    """Swap two nodes of a page."""
    first, second = struct.unpack_from("=HH", data, page + 16)
    return put(data, page + 16, "HH", second, first)


LEAF: dict[str, tuple[Callable[[bytes, int], bytes], str]] = {
    "page number": (lambda d, p: put(d, p, "Q", 3), "a wrong header"),
    "kind": (lambda d, p: put(d, p + 10, "H", 1), "header|deep|node"),
    "dirty": (lambda d, p: put(d, p + 10, "H", 18), "a wrong header"),
    "bounds": (lambda d, p: put(d, p + 12, "H", 5000), "wrong bounds"),
    "one node less": (lambda d, p: put(d, p + 12, "H", struct.unpack_from("=H", d, p + 12)[0] - 2), "a gap between"),
    "node outside": (lambda d, p: put(d, p + 16, "H", 8), "a node outside"),
    "node moved": (lambda d, p: put(d, p + 16, "H", node(d, p, 0) - p + 2), "overlap|outside|no known kind"),
    "node twice": (lambda d, p: put(d, p + 16, "H", node(d, p, 1) - p), "overlap"),
    "order": (swapped, "out of order"),
    "kind of node": (lambda d, p: put(d, node(d, p, 0) + 4, "H", 4), "no known kind|another kind"),
    "size of a key": (lambda d, p: put(d, node(d, p, 0) + 6, "H", 60_000), "overlap|ends outside"),
    "key": (lambda d, p: put(d, node(d, p, 1) + 8, "B", 255), "out of order|another page"),
}


@pytest.mark.parametrize("what", LEAF)
def test_a_damaged_leaf_is_named(what: str, sound: bytes, tmp_path: Path) -> None:
    change, words = LEAF[what]
    page = live(sound, tmp_path / "sound", "long", leaf=True)
    (said,) = found_in(tmp_path / "damaged", change(sound, page))
    assert "long, " in said
    assert any(word in said for word in words.split("|")), said


def test_a_key_of_no_bytes_in_a_damaged_page_is_named(sound: bytes, tmp_path: Path) -> None:
    """Flip a bit in the size of a key while the store is open. Then read, delete or put the key."""
    page = live(sound, tmp_path, "wide", leaf=True)
    nodes = (node(sound, page, place) for place in range(PAGE))
    inline = next(at for at in nodes if struct.unpack_from("=H", sound, at + 4) == (0,))  # its value is in this page
    store = open_lmdb(tmp_path)
    with (tmp_path / DATA).open("r+b") as file:
        file.seek(inline + 6)
        assert file.read(2) == struct.pack("=H", 8)
        file.seek(-2, 1)
        file.write(struct.pack("=H", 0))
    with store.read() as snap:
        keys = [key for key, _ in snap.scan("wide")]
    assert b"" in keys
    changes: list[Callable[[LmdbWriter], None]] = [
        lambda txn: txn.delete_many("wide", keys),
        lambda txn: txn.put_many("copied", [(key, b"") for key in keys]),
    ]
    for change in changes:
        with pytest.raises(StoreDamaged, match=r"a key of no bytes, or of more than 511; run `p"), store.write() as txn:
            change(txn)
    store.close()


def test_a_wrong_separator_is_named(sound: bytes, tmp_path: Path) -> None:
    """The keys of each page are still in order, but a look-up goes to the wrong page."""
    page = live(sound, tmp_path / "sound", "long", leaf=False)
    at = node(sound, page, 1) + 8
    size = struct.unpack_from("=H", sound, at - 2)[0]
    (said,) = found_in(tmp_path / "damaged", put(sound, at + size - 1, "B", sound[at + size - 1] + 1))
    assert "keys that belong on another page" in said


def test_a_child_that_is_named_twice_is_named(sound: bytes, tmp_path: Path) -> None:
    page = live(sound, tmp_path / "sound", "long", leaf=False)
    first = struct.unpack_from("=H", sound, node(sound, page, 0))[0]
    (said,) = found_in(tmp_path / "damaged", put(sound, node(sound, page, 1), "H", first))
    assert "used twice" in said


def test_an_overflow_page_must_match_its_node(sound: bytes, tmp_path: Path) -> None:
    for start in range(2 * PAGE, len(sound), PAGE):
        number, _, flags, _ = struct.unpack_from("=QHHI", sound, start)
        if number * PAGE == start and flags == 4:
            said = found_in(tmp_path / "damaged", put(sound, start + 12, "I", 77))
            if said:  # it is no free page
                assert "has a wrong header" in said[0]
                return
    raise AssertionError("no overflow page")


def walked(path: Path) -> list[PageDamaged]:
    """Return the damage that a scrub finds in a file that is not open."""
    try:
        with Pages(str(path)) as pages:
            scrub = Scrub(pages)
            for _ in scrub.run():
                pass
            return scrub.found
    except PageDamaged as damage:
        return [damage]


def test_a_file_that_is_cut_off_is_refused(sound: bytes, tmp_path: Path) -> None:
    last = live(sound, tmp_path / "sound", "wide", leaf=True)
    for size in (0, 1, 100, PAGE, PAGE + 100, last, last + 100):
        (tmp_path / DATA).write_bytes(sound[:size])
        assert walked(tmp_path), size


def meta(data: bytes) -> int:
    """Return the start of the newest meta page."""
    return max((0, PAGE), key=lambda start: int(struct.unpack_from("=Q", data, start + 144)[0]))


META = {
    "magic": (16, "I"),
    "version": (20, "I"),
    "flags of the free list": (44, "H"),
    "root of the free list": (80, "Q"),
    "flags of the list": (92, "H"),
    "entries of the list": (120, "Q"),
    "root of the list": (128, "Q"),
    "last page": (136, "Q"),
}


@pytest.mark.parametrize("what", META)
def test_damage_of_a_meta_page_is_refused(what: str, sound: bytes, tmp_path: Path) -> None:
    at, form = META[what]
    start = meta(sound) + at
    was = struct.unpack_from("=" + form, sound, start)[0]
    (tmp_path / DATA).write_bytes(put(sound, start, form, was ^ 4))
    assert walked(tmp_path)
