"""Load files into several partitions: after a crash between partitions each one continues at its own offset."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.cli.files.lossless_json import read_portable
from penstock.core.input.batches import delivered
from penstock.engine import PartitionedStore, Resume
from penstock.gateway import TableBatch
from penstock.spout import FileSpout, ParquetSpout, SourceCut, SpoutBatch, open_file

N = 60
GOOD = [i for i in range(N) if i % 10 != 5]


def shop() -> ps.App:
    app = ps.App("shop")
    app.table("users", key="id").view("total", key="g", value="v", reduce=ps.sum())
    return app


def of_json(path: Path, close: str = "\n", mark: str = "") -> Path:
    lines = [json.dumps({"id": i, "g": "a", "v": i}) if i in GOOD else "no document" for i in range(N)]
    path.write_text(mark + "\n".join(["", *lines]) + close, "utf-8")
    return path


def of_csv(path: Path) -> Path:
    """Make a CSV file with a broken row, and rows that span two lines."""
    rows = [f'{i},a,{i},"one\ntwo"' if i % 3 == 0 else f"{i},a,{i},one" for i in range(N)]
    text = "\n".join(["id,g,v,note", *(row if i in GOOD else "1,2" for i, row in enumerate(rows)), ""])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def of_parquet(path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"id": i if i in GOOD else None, "g": "a", "v": i} for i in range(N)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


MADE: dict[str, Any] = {
    "jsonl": lambda folder: of_json(folder / "users.jsonl"),
    "jsonl without a last line feed": lambda folder: of_json(folder / "users.jsonl", close=""),
    "jsonl with a byte order mark": lambda folder: of_json(folder / "users.jsonl", mark="\ufeff"),
    "csv": lambda folder: of_csv(folder / "users.csv"),
    "csv.gz": lambda folder: of_csv(folder / "users.csv.gz"),
    "parquet": lambda folder: of_parquet(folder / "users.parquet"),
}


def batches(spout: FileSpout | ParquetSpout, limit: int) -> Iterator[SpoutBatch]:
    while (batch := spout.next_batch(limit)) is not None:
        yield batch


def begun(path: Path, engine: Any) -> FileSpout | ParquetSpout:
    spout = open_file(str(path), "users")
    spout.begin(engine.remembered)
    return spout


def crash_between(engine: ps.Engine, spout: FileSpout | ParquetSpout, limit: int, first: int) -> None:
    """Give all partitions the first batch, and the next one to the first or the second partition alone."""
    list(engine.load("users", [next(batches(spout, 5))]))
    batch = next(batches(spout, limit))
    own = engine.store.writing.routed({"users": [delivered(batch)]}).get(first, {})
    assert batch.source is not None
    engine.store.handles[first].take(own, {batch.source: Resume(batch.resume, batch.note)}, 99, {})


@pytest.mark.parametrize("again", [3, 7, 1000])
@pytest.mark.parametrize("kind", MADE)
def test_a_file_goes_on_where_each_partition_stands(kind: str, again: int, tmp_path: Path) -> None:
    path = MADE[kind](tmp_path)
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        crash_between(engine, begun(path, engine), 20, again % 2)
    with ps.open(shop(), tmp_path / "s", processes=False) as engine:
        spout = begun(path, engine)
        given = sum((counts for _, counts in engine.load("users", batches(spout, again))), ps.Counts())
        assert given.equal == 0, "nothing is put a second time"
        with engine.snapshot() as snap:
            assert sorted(key for key, _ in snap.table("users").items()) == GOOD
            assert snap.view("total")["a"] == sum(GOOD)
            assert snap.sources == {f"users=file:{path}": spout.number if kind == "parquet" else _size(path)}
        assert len(list(engine.quarantine())) == N - len(GOOD), "each broken record once"


def _size(path: Path) -> int:
    data = path.read_bytes()
    return len(gzip.decompress(data) if path.suffix == ".gz" else data)


def test_an_export_goes_on_where_each_partition_stands(tmp_path: Path) -> None:
    """An export has special lines, which stand for values that JSON does not have."""
    path = tmp_path / "users.jsonl"
    lines = [json.dumps({"id": i, "g": "a", "v": {"$decimal": str(i)} if i % 4 else i}) for i in range(N)]
    path.write_text("".join(line + "\n" for line in lines))
    batch = read_portable(next(batches(open_file(str(path), "users"), 20)))
    assert not batch.raw
    assert list(batch.begin_of_each()) == [sum(len(line) + 1 for line in lines[:i]) for i in range(20)]


def test_a_spout_without_offsets_is_told_from_one_that_moved(tmp_path: Path) -> None:
    def batch(first: int, last: int, again: bool = False) -> SpoutBatch:
        lines = [b'{"id": %d, "g": "a", "v": 1}' % i for i in range(first, last)]
        return SpoutBatch(TableBatch(lines), "other:feed", first, last, again=again, raw=False)

    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        cut = batch(0, 20)
        own = engine.store.writing.routed({"users": [delivered(cut)]})[1]
        engine.store.handles[1].take(own, {"other:feed": Resume(20)}, 99, {})
    with ps.open(shop(), tmp_path / "s", processes=False) as engine:
        with pytest.raises(SourceCut, match=r"^other:feed: some partition stands between 0 and 50, .* again=True$"):
            list(engine.load("users", [batch(0, 50)]))
        list(engine.load("users", [batch(0, 20)]))
        list(engine.load("users", [batch(20, 50)]))
        with engine.snapshot() as snap:
            assert snap.view("total")["a"] == 50
    with ps.open(shop(), tmp_path / "s", processes=False) as engine:
        list(engine.load("users", [batch(0, 50, again=True)]))
        with engine.snapshot() as snap:
            assert snap.view("total")["a"] == 50


@pytest.mark.parametrize("crash", ["before the batch", "in the batch"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_begins_anew_is_whole_after_a_crash(
    again: bool, first: int, crash: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file gets its name, or it is loaded again; one partition has taken that, and the other one has not."""
    path = tmp_path / "users.jsonl"

    def write(n: int, value: int) -> None:
        path.write_text("".join(json.dumps({"id": i, "g": "a", "v": value}) + "\n" for i in range(n)))

    write(50, 1)
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        list(engine.load("users", batches(begun(path, engine), 1000)))
        if again:
            engine.put_many("users", [{"id": i, "g": "a", "v": 7} for i in range(50)])
        else:
            write(40, 3)
        spout = open_file(str(path), "users", again=again)
        spout.begin(engine.remembered)
        handle, calls = engine.store.handles[first], iter(range(10))
        real = type(handle).take

        def take(own: Any, *what: Any) -> Any:
            if own is handle and next(calls) == (crash == "in the batch"):
                raise PenstockError("killed here")
            return real(own, *what)

        with monkeypatch.context() as patch:
            patch.setattr(type(handle), "take", take)
            with pytest.raises(PenstockError, match="killed here"):
                list(engine.load("users", batches(spout, 20)))
    with ps.open(shop(), tmp_path / "s", processes=False) as engine:
        list(engine.load("users", batches(begun(path, engine), 20)))
        with engine.snapshot() as snap:
            found = {key: doc["v"] for key, doc in snap.table("users").items()}
            assert snap.sources == {f"users=file:{path}": _size(path)}
    untouched = again and first == 0 and crash == "before the batch"  # no partition had reset its offset
    wanted = {i: 3 if i < 40 else 1 for i in range(50)}
    assert found == (dict.fromkeys(range(50), 7 if untouched else 1) if again else wanted)
