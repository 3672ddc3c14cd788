"""Load a file by the command and by `put_many`: whole processes, from start to end.

Both read a file of JSON lines in the system's cache into an empty store, import the same app, and use all cores. They
take turns, so that a disturbance affects both.

`formats` reads the documents from JSON lines, CSV and Parquet, as the command does, on one core. Its rates are per
second of CPU time. DuckDB computes one view from the same file, on one thread.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

import penstock as ps
from bench import child, machine
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import TABLE, Workload, app
from penstock.cli.running.source_batches import LIMIT
from penstock.spout import FileSpout, ParquetSpout, SpoutBatch, open_file

COMMAND = 1.15  # limit of the command's time, in units of put_many
CSV, PARQUET = 450_000, 1.0  # limits of their rates: in documents/s, and in units of that of JSON lines
_READ = {"jsonl": "read_json(?, format='newline_delimited')", "csv": "read_csv(?)", "parquet": "read_parquet(?)"}
_APP = "from bench.workload import app as made\n\napp = made()\n"


def load(plan: Plan) -> Iterator[Figure]:
    """The command beside the call."""
    folder = fresh(plan.at("files"))
    file, own = folder / "users.jsonl", folder / "app.py"
    work = Workload(plan.keys)
    file.write_bytes(b"\n".join(work.upserts(plan.docs)) + b"\n")
    own.write_text(_APP, "utf-8")
    watch = machine.Watch.start()
    command, call = list[float](), list[float]()
    for _ in range(plan.rounds):
        call.append(_timed(["-m", "bench.files", str(file), str(folder / "call")]))
        to = ["--app", str(own), "--store", str(folder / "command")]
        command.append(_timed(["-m", "penstock", "load", TABLE, str(file), *to]))
        for name in ("call", "command"):
            with ps.open(app(), folder / name, readonly=True) as engine:
                work.check(engine)
            shutil.rmtree(folder / name)
    shutil.rmtree(folder)
    ratio = median(a / b for a, b in zip(command, call, strict=True))
    yield Figure(
        "load",
        "command",
        plan.docs / median(command),
        "documents/s",
        {"put_many of the file, documents/s": plan.docs / median(call)},
        watch.share() if watch else None,
        f"time ≤ {COMMAND} × put_many",
        ratio,
        plan.met(ratio <= COMMAND),
        {"seconds": command, "seconds of put_many": call},
    )


def formats(plan: Plan) -> Iterator[Figure]:
    """The formats of files."""
    folder = fresh(plan.at("formats"))
    lines = Workload(plan.keys).upserts(plan.docs)
    files = _written(folder, lines)
    seconds, duckdb = dict[str, list[float]](), dict[str, list[float]]()
    watch = machine.Watch.start()
    for _ in range(plan.rounds):
        for kind, file in files.items():
            arguments: dict[str, Any] = {"file": str(file), "docs": plan.docs}
            found = child.run("bench.files:loaded", 1, **arguments, store=str(folder / "store"), keys=plan.keys)
            seconds.setdefault(kind, []).append(found["seconds"])
            duckdb.setdefault(kind, []).append(child.run("bench.files:duck", 1, **arguments, kind=kind)["seconds"])
    shutil.rmtree(folder)
    rates = {kind: plan.docs / median(took) for kind, took in seconds.items()}
    for kind, rate in rates.items():
        ratio = rate / CSV if kind == "csv" else rate / rates["jsonl"]
        bound = {"csv": f"≥ {CSV:,} documents/s", "parquet": "≥ the rate of JSON lines"}.get(kind, "")
        met = plan.met(ratio >= PARQUET) if bound else None
        beside: dict[str, float | None] = {"DuckDB, one view": plan.docs / median(duckdb[kind])}
        idle = watch.share() if watch else None
        detail = {"CPU seconds": seconds[kind]}
        yield Figure("formats", kind, rate, "documents/s", beside, idle, bound, ratio if bound else None, met, detail)


def loaded(file: str, docs: int, store: str, keys: int) -> dict[str, Any]:
    """Measure the CPU seconds to load a file into an empty store."""
    work = Workload(keys)
    work.upserts(docs)
    began = time.process_time()
    with ps.open(app(), store) as engine:
        spout = open_file(file, TABLE)
        for _ in engine.load(TABLE, batches(spout)):
            pass
        spout.close()
        seconds = time.process_time() - began
        work.check(engine)
    shutil.rmtree(store)
    return {"seconds": seconds}


def batches(spout: FileSpout | ParquetSpout) -> Iterator[SpoutBatch]:
    """Read a spout to its end."""
    while not spout.ended:
        batch = spout.next_batch(LIMIT)
        if batch is not None:
            yield batch


def duck(file: str, docs: int, kind: str) -> dict[str, Any]:
    """Measure the CPU seconds of DuckDB for one of the views."""
    duckdb: Any = importlib.import_module("duckdb")
    began = time.process_time()
    with duckdb.connect(config={"threads": 1}) as base:
        rows = base.execute(f"select city, count(*), sum(amount) from {_READ[kind]} group by city", [file]).fetchall()
    seconds = time.process_time() - began
    assert sum(n for _, n, _ in rows) == docs, "DuckDB counts every document"
    return {"seconds": seconds}


def _written(folder: Path, lines: list[bytes]) -> dict[str, Path]:
    """Write the documents to a file of each format."""
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    files = {kind: folder / f"users.{kind}" for kind in _READ}
    files["jsonl"].write_bytes(b"\n".join(lines) + b"\n")
    docs = list(map(msgspec.json.Decoder().decode, lines))
    rows = (",".join(map(str, doc.values())) for doc in docs)
    files["csv"].write_text("\n".join([",".join(docs[0]), *rows, ""]), "utf-8")
    parquet.write_table(arrow.Table.from_pylist(docs), files["parquet"])
    return files


def _timed(arguments: list[str]) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began


def _put_many(file: Path, store: Path) -> None:
    with ps.open(app(), store) as engine, file.open("rb") as lines:
        engine.put_many(TABLE, lines)


if __name__ == "__main__":
    _put_many(*map(Path, sys.argv[1:]))
