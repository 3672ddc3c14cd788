"""Flip a bit in a row of any kind. Each reader of the row gets an error that names the row, and never a wrong value.

Every other read returns the same as before. `BECOMES` has the remedy for each kind of row: rows that follow from
documents are restored from them. For other rows, the error names the next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import META, decode_key, index_db, is_long, log_db
from penstock.gateway import QUARANTINE, moved_lines_db
from penstock.mapreduce import FEED, late_db, view_dbs
from tests.faults import everykind
from tests.faults.everykind import KINDS, Damaged, document, opened, read

RESTATED, FIXED = "engine.restate(view)", "engine.check(fix=True)"
COPY = "; restore the store from a copy, or load its documents into a new path"
BECOMES = {
    **dict.fromkeys(("view", "tree", "behind", "told", "held", "resting"), RESTATED),
    "index": FIXED,
    "feed": "; read the views with changes(…, initial=True), and follow from there",
    "quarantine": "; drop it with `penstock quarantine drop`, and put the record anew from its source",
    **dict.fromkeys(("log", "moved", "meta"), COPY),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "store"
    everykind.fill(path)
    return path


@pytest.fixture
def damaged(filled: Path, tmp_path: Path) -> Damaged:
    return Damaged(filled, tmp_path)


@pytest.fixture(scope="module")
def names(filled: Path) -> dict[str, str]:
    return everykind.names_of(filled)


@pytest.fixture(scope="module")
def whole(filled: Path) -> dict[str, Any]:
    with opened(filled) as engine:
        out = read(engine)
    assert not [name for name, one in out.items() if isinstance(one, Exception)]
    return out


def rows_of(damaged: Damaged, *kinds: str) -> Iterator[tuple[str, bytes]]:
    """Yield the first and the last row of each database of these kinds.

    From `meta`, where each row differs, yield all.
    """
    for db, rows in damaged.rows.items():
        if db.partition(":")[0] in kinds:
            ends = rows if db == META else (rows[0], rows[-1])
            for key in dict.fromkeys(key for key, _ in ends):
                yield db, key


def place(db: str, key: bytes, names: dict[str, str]) -> str:
    """Return the name that an error must give to a damaged row."""
    kind, _, number = db.partition(":")
    name, entry = repr(names.get(number)), int.from_bytes(key, "big")
    match kind:
        case "meta":
            shown = key.decode() if key.isascii() else f"source:{key[7:].hex()}"
            return f"what the store says of itself, key {shown};"
        case "feed":
            return f"the feed of changes, position {entry};"
        case "quarantine":
            return f"quarantine, record r{entry};"
        case "log":
            return f"table {name}, log entry {entry}"
        case "index":
            return f"table {name}, its index, key {key.hex()};"
        case "moved":
            return f"table {name}, the order of its records, log entry {entry};"
        case "behind":
            return f"view {name}, changes that its trees lack, entry {entry};"
        case "tree":
            return f"view {name}, its trees, group {decode_key(key[:-10])!r};"
    of_rows = name == "'lengths'"
    if kind == "told" and not of_rows:
        return f"view {name}, remembered emissions, log entry {entry};"
    source = "row" if of_rows else "document"
    what = {
        "view": "",
        "told": "remembered emissions, ",
        "held": f"held {source}s, ",
        "resting": f"resting {source}s, ",
    }[kind]
    shown = key[:24].hex() if is_long(key) else repr(decode_key(key))[:20]
    return f"view {name}, {what}{'group' if kind == 'view' else source} {shown}"


def found_in(path: Path, whole: dict[str, Any]) -> list[str]:
    """Return the damage that reads and a check find. Check that all other reads are right."""
    try:
        with opened(path) as engine:
            seen = read(engine)
            checked = engine.check()
    except ps.StoreDamaged as damage:
        return [str(damage)]
    wrong = [name for name, one in seen.items() if not isinstance(one, ps.StoreDamaged) and one != whole[name]]
    if wrong == ["quarantine"]:  # the list has the other entries, and reports that this one is damaged
        [own] = set(seen["quarantine"]) - set(whole["quarantine"])
        assert "its row in the store is damaged" in own
        wrong.clear()
    assert not wrong, f"served: {wrong}"
    assert all(one.step for one in seen.values() if isinstance(one, ps.StoreDamaged)), "the next step is left open"
    assert checked.damaged or checked.wrong, "the check has passed over it"
    return [*(str(one) for one in seen.values() if isinstance(one, ps.StoreDamaged)), *checked.damaged]


def test_there_are_rows_of_every_kind(damaged: Damaged) -> None:
    """Compare with the names of all databases that a store may have. Late records are those of streams."""
    made = {META, FEED, QUARANTINE, *view_dbs(1), log_db(1), index_db(1), moved_lines_db(1)} - {late_db(1)}
    assert (
        {db.partition(":")[0] for db in damaged.rows} == {db.partition(":")[0] for db in made} == KINDS == set(BECOMES)
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_turned_bit_is_named_and_never_served(
    kind: str, damaged: Damaged, names: dict[str, str], whole: dict[str, Any]
) -> None:
    for n, (db, key) in enumerate(rows_of(damaged, kind)):
        with damaged.copy(db, key, (3, -1)[n % 2]) as path:
            said = found_in(path, whole)
        assert any(place(db, key, names) in one for one in said), f"{db}, {key.hex()}: {said}"


AFTER = [document(number, 20) for number in range(15)]


def put_on(engine: Any) -> None:
    """Put documents that touch most rows."""
    engine.put_many("users", AFTER)
    engine.put_many("plain", AFTER[:8])


def test_writing_goes_by_nothing_damaged(damaged: Damaged, whole: dict[str, Any]) -> None:
    (db, key), *_ = rows_of(damaged, "quarantine")
    with damaged.copy(db, key, 0) as path, opened(path) as engine:
        put_on(engine)
        after = read(engine)
    refused = 0
    for db, key in [row for n, row in enumerate(rows_of(damaged, *KINDS - {"quarantine"})) if n % 2 == 0]:
        with damaged.copy(db, key, 5) as path, suppress(ps.StoreDamaged), opened(path) as engine:
            stopped = False
            try:
                put_on(engine)
            except ps.StoreDamaged:
                stopped, refused = True, refused + 1
            for name, one in read(engine).items():
                if not stopped and name != "quarantine" and not isinstance(one, ps.StoreDamaged):
                    assert one == after[name], f"{db}, {key.hex()}: {name}"
    assert refused > 10, "damage has stopped what would have followed from it"


@pytest.mark.parametrize("kind", sorted(kind for kind, what in BECOMES.items() if what in (RESTATED, FIXED)))
def test_what_follows_from_documents_is_made_right(
    kind: str, damaged: Damaged, names: dict[str, str], whole: dict[str, Any]
) -> None:
    for db, key in rows_of(damaged, kind):
        with damaged.copy(db, key, 9) as path, opened(path) as engine:
            if BECOMES[kind] == RESTATED:
                view = names[db.partition(":")[2]]
                repaired = engine.restate(view)
                assert repaired or kind in ("held", "resting"), f"{db}, {key.hex()}"
                assert {one.view for one in repaired} <= {view}
            else:
                report = engine.check(fix=True)
                assert report.ok
                assert len(report.anew) == 1
            seen = read(engine)
            feed = seen.pop("feed")
            assert not isinstance(feed, ps.StoreDamaged)
            assert {name: one for name, one in whole.items() if name not in ("feed", "status")} == {
                name: one for name, one in seen.items() if name != "status"
            }, f"{db}, {key.hex()}"
            assert engine.check().ok


@pytest.mark.parametrize("kind", sorted(kind for kind, what in BECOMES.items() if what not in (RESTATED, FIXED)))
def test_of_the_rest_the_next_step_is_said(kind: str, damaged: Damaged, whole: dict[str, Any]) -> None:
    for db, key in rows_of(damaged, kind):
        with damaged.copy(db, key, 9) as path:
            assert any(BECOMES[kind] in one for one in found_in(path, whole)), f"{db}, {key.hex()}"


def test_a_damaged_record_of_quarantine_is_dropped(damaged: Damaged, whole: dict[str, Any]) -> None:
    (db, key), *_ = rows_of(damaged, "quarantine")
    with damaged.copy(db, key, 9) as path, opened(path) as engine:
        entries = list(engine.quarantine("record"))
        [lost] = [entry for entry in entries if not entry.table]
        assert len(entries) == len(damaged.rows[db]) > 1
        assert engine.retry(lost.id).left == 1
        assert "put the record anew from its source" in engine.retry(lost.id).why[0].reason
        quarantined = sum(about["quarantined"] for about in engine.status()["tables"].values())
        assert engine.drop(lost.id).dropped == 1
        assert [entry for entry in entries if entry.table] == list(engine.quarantine("record"))
        assert sum(about["quarantined"] for about in engine.status()["tables"].values()) == quarantined - 1
        assert engine.check().ok


def test_the_views_can_be_read_where_the_feed_is_damaged(damaged: Damaged) -> None:
    (db, key), *_ = rows_of(damaged, "feed")
    with damaged.copy(db, key, 9) as path, opened(path) as engine:
        with pytest.raises(ps.StoreDamaged, match=r"initial=True"):
            list(engine.changes(since=0))
        position = engine.status()["position"]
        assert list(engine.changes(initial=True))
        put_on(engine)
        assert list(engine.changes(since=position))
