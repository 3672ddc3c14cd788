"""Views built while the index of their table had lost documents: a check reports and repairs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

import penstock as ps
from penstock.cache import Limits, index_db, open_lmdb
from penstock.recovery.repair import emission_repair
from penstock.recovery.repair.repair_site import OneSite
from tests.harness.planting import Edit

FOLDING = Limits(few=8, fold_least=4, fold_most=8, fold_buckets=2, space=1e9, entries=1 << 30)  # and no compaction
DOCS = [{"id": i, "g": i % 3, "h": i % 4, "v": i, "bad": i % 20 == 7} for i in range(80)]


def shop(field: str) -> ps.App:
    """Return an app with views of all kinds by a field. Another field changes every definition."""
    app = ps.App("shop")
    users = app.table("users", key="id")
    users.view("counted", key=field, reduce=ps.count())
    users.view("most", key=field, value="v", reduce=ps.max())

    def yields(user: dict[str, Any]) -> Iterator[Any]:
        if user["bad"]:
            raise ValueError("bad")
        if user["v"] % 5:
            yield user[field], user["v"]

    yielded = users.view("yielded", reduce=ps.sum())(yields)
    users.view("listed", reduce=ps.min())(yields)
    yielded.view("sums", key="value", reduce=ps.count())
    return app


def folders(path: Path) -> list[Path]:
    return sorted(path.glob("*-*")) or [path]


def lose(path: Path, keep: int, numbers: list[int]) -> None:
    """Delete all rows of the index except the first `keep` rows."""
    for folder in folders(path):
        store = open_lmdb(folder)
        with store.write() as writer:
            for number in numbers:
                rows = [key for key, _ in writer.scan(index_db(number))]
                assert len(rows) > 2
                writer.delete_many(index_db(number), rows[keep:])
        store.close()


def opened(path: Path, field: str, partitions: int | None) -> Any:
    return ps.open(shop(field), path, partitions=partitions, processes=False, limits=FOLDING, listen=False)


def filled(path: Path, field: str, partitions: int | None) -> str:
    with opened(path, field, partitions) as engine:
        for i in range(0, len(DOCS), 10):
            engine.put_many("users", DOCS[i : i + 10])
        engine.delete("users", 3)
        engine.put("users", DOCS[4] | {"v": 4_000})
        for i in range(200, 212):  # so that the documents before are in the index
            engine.put("users", {"id": i, "g": 0, "h": 0, "v": 1, "bad": False})
        engine.settle()
        engine.migrate()
        return shown(engine)


def shown(engine: Any) -> Any:
    with engine.snapshot() as snap:
        return {name: dict(snap.view(name).items()) for name in ("counted", "most", "yielded", "listed", "sums")}, len(
            snap.table("users")
        )


@pytest.fixture
def migrated(tmp_path: Path) -> Callable[[int, int | None], tuple[Path, Any]]:
    """Make a store that lost its index before a migration. Return it with the right rows of its views."""

    def made(keep: int, partitions: int | None) -> tuple[Path, Any]:
        wanted = filled(tmp_path / "sound", "h", partitions)
        filled(tmp_path / "lost", "g", partitions)
        lose(tmp_path / "lost", keep, [1])
        with opened(tmp_path / "lost", "h", partitions) as engine:
            engine.migrate()
            assert shown(engine) != wanted
        return tmp_path / "lost", wanted

    return made


@pytest.mark.parametrize(("keep", "partitions"), [(0, None), (2, None), (0, 2)])
def test_a_check_makes_the_views_right(keep: int, partitions: int | None, migrated: Any) -> None:
    path, wanted = migrated(keep, partitions)
    with opened(path, "h", partitions) as engine:
        assert not engine.check().ok
        report = engine.check(fix=True)
        assert report.ok
        assert {one.view for one in report.wrong} >= {"counted", "yielded", "listed"}
        assert report.told == {}
        assert shown(engine) == wanted
        after = engine.check()
        assert (after.ok, after.wrong, after.told) == (True, (), {})
        assert after.held == dict.fromkeys(("yielded", "listed"), 4)
        engine.put_many("users", [doc | {"v": doc["v"] + 1} for doc in DOCS])
        engine.settle()
        assert engine.check().ok


def test_a_check_that_was_interrupted_goes_on(migrated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, wanted = migrated(0, None)
    monkeypatch.setattr(emission_repair, "_BLOCK", 16)
    with opened(path, "h", None) as engine:
        real, calls = OneSite.step, iter(range(100))

        def step(site: OneSite, place: int, do: str, *what: Any) -> Any:
            if do == "repair_missing_emissions" and next(calls) == 3:
                raise KeyboardInterrupt
            return real(site, place, do, *what)

        with monkeypatch.context() as patch:
            patch.setattr(OneSite, "step", step)
            with pytest.raises(KeyboardInterrupt):
                engine.check(fix=True)
    with opened(path, "h", None) as engine:
        report = engine.check()
        assert "table 'users': its index was made anew, and views may lack documents" in " ".join(report.damaged)
        assert engine.check(fix=True).ok
        assert shown(engine) == wanted
        assert engine.check().ok


COMPACTING = Limits(few=8, fold_least=4, fold_most=8, fold_buckets=2, space=1.5, entries=1 << 30)


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    """Make a store whose index lost rows below Penstock, so that their digest still counts them."""
    path = tmp_path / "lost"
    filled(path, "g", None)
    with lmdb.open(str(path), max_dbs=100) as env, env.begin(write=True, db=env.open_db(b"index:1")) as txn:
        for key, _ in list(txn.cursor())[2:]:
            txn.delete(key)
    return path


def compacting(path: Path) -> Any:
    return ps.open(shop("g"), path, processes=False, limits=COMPACTING, listen=False)


def kept(engine: Any) -> set[int]:
    """Return the documents in the log that a check finds. The check builds the index again."""
    engine.check(fix=True)
    with engine.snapshot() as snap:
        return {key for key, _ in snap.table("users").items()}


KEPT = {*range(80), *range(200, 212)} - {3}


def test_an_index_that_lost_rows_is_not_compacted_by(lossy: Path) -> None:
    with compacting(lossy) as engine:
        with pytest.raises(ps.StoreDamaged, match=r"table 'users', its index, rows were lost .*check --fix"):
            engine.compact()
        assert kept(engine) == KEPT
        assert engine.compact().records > 0
        assert kept(engine) == KEPT


def test_documents_are_put_where_an_index_that_lost_rows_stops_compaction(
    lossy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with compacting(lossy) as engine:
        for v in range(1_000, 1_060):
            engine.put("users", DOCS[0] | {"v": v})
        messages = [record.getMessage() for record in caplog.records if "compact" in record.getMessage()]
        assert len(messages) == 1
        assert "penstock check --fix" in messages[0]
        head = engine.store.core.tables["users"].log.head
        assert kept(engine) == KEPT
        for v in range(1_000, 1_060):
            engine.put("users", DOCS[0] | {"v": v})
        assert engine.store.core.tables["users"].log.head > head, "it goes on after the repair"
        assert kept(engine) == KEPT


def test_a_compaction_that_trusts_the_index_is_found(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Edit("cache.log.document_log:DocumentLog._compare_index", "writer.lost_rows(self._index)", "False").plant(
        monkeypatch
    )
    with compacting(lossy) as engine:
        engine.compact()
        assert kept(engine) < KEPT
