"""`python -m bench.spark`: fill and verify a store in bulk, compared with the engine's load and a DuckDB recomputation.

Each of them reads one file of JSON lines: every key once, in no order. The start of Spark is a figure of its own.
DuckDB groups the documents of the file, by the latest ts of each key, for one of the views, and stores nothing.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import penstock as ps
from bench import machine, plot
from bench.child import run
from bench.report import Figure, Report
from bench.scratch import scratch
from bench.workload import TABLE, Workload, app
from penstock.spark import backfill, session, verify
from penstock.spout import open_file

HERE = Path(__file__).resolve().parent
_CHUNK = 100_000
_AIMS = {"field": 150_000, "function": 100_000}
_SQL = """
select city, count(*) n, sum(amount)::bigint total
from (
    select arg_max(city, ts) city, arg_max(amount, ts) amount from read_json(?, format='newline_delimited') group by id
) group by city
"""


def bulk(folder: str, docs: int, master: str, functions: bool, verified: bool) -> dict[str, Any]:
    """Run a backfill of this number of documents, and a verification of the result."""
    file, store = input_file(folder, docs), Path(folder) / "bulk"
    shutil.rmtree(store, ignore_errors=True)
    began = time.perf_counter()
    spark = session(master)
    start = time.perf_counter() - began
    began = time.perf_counter()
    done = backfill(app(functions), store, spark=spark, users=str(file))
    seconds = time.perf_counter() - began - done.seconds["start"]
    start += done.seconds["start"]
    java = _high_water(spark)
    out = {"seconds": seconds, "start": start, "stages": done.seconds, "java": java, "driver": _peak()}
    must_be_right(app(functions), store, docs)
    if verified:
        began = time.perf_counter()
        assert verify(app(functions), store, spark=spark).ok, "what was just filled is right"
        out["verify"] = time.perf_counter() - began
    spark.stop()
    shutil.rmtree(store)
    return out


def load(folder: str, docs: int, functions: bool) -> dict[str, Any]:
    """Run the engine's own load of the same file."""
    file, store = input_file(folder, docs), Path(folder) / "loaded"
    shutil.rmtree(store, ignore_errors=True)
    began = time.perf_counter()
    with ps.open(app(functions), store) as engine:
        spout = open_file(str(file), TABLE)
        for _ in engine.load(TABLE, _batches(spout), True):
            pass
    seconds = time.perf_counter() - began
    spout.close()
    shutil.rmtree(store)
    return {"seconds": seconds}


def duck(folder: str, docs: int, threads: int) -> dict[str, Any]:
    """Run DuckDB's recomputation of one of the views from the same file."""
    duckdb: Any = importlib.import_module("duckdb")
    file = str(input_file(folder, docs))
    began = time.perf_counter()
    with duckdb.connect(config={"threads": threads}) as base:
        rows = base.execute(_SQL, [file]).fetchall()
    seconds = time.perf_counter() - began
    assert sum(n for _, n, _ in rows) == docs, "DuckDB counts every document"
    return {"seconds": seconds}


def input_file(folder: str, docs: int) -> Path:
    """Return the file, made once."""
    path = Path(folder) / f"{docs}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        work, left = Workload(docs), docs
        with path.open("wb") as out:
            while left:
                lines = work.every_key(min(_CHUNK, left))
                out.write(b"\n".join(lines) + b"\n")
                left -= len(lines)
    return path


def must_be_right(of: ps.App, store: Path, docs: int) -> None:
    """Compare the views of a store with the documents of the file."""
    work = Workload(docs)
    for at in range(0, docs, _CHUNK):
        work.every_key(min(_CHUNK, docs - at))
    with ps.open(of, store, readonly=True) as engine:
        work.check(engine)


def _batches(spout: Any) -> Iterator[Any]:
    while not spout.ended:
        batch = spout.next_batch(50_000)
        if batch is not None:
            yield batch


def _peak() -> int:
    """Return the largest memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _high_water(spark: Any) -> int:
    """Return the largest memory of its Java process."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024


def figures(folder: str, docs: int, master: str, verified: bool, kinds: list[str]) -> Iterator[Figure]:
    """Yield all figures."""
    cores = int(master.removeprefix("local[").removesuffix("]"))
    for kind in kinds:
        functions, aim = kind == "function", _AIMS[kind]
        case = f"{kind} views"
        got = run("bench.spark:bulk", folder=folder, docs=docs, master=master, functions=functions, verified=verified)
        alone = run("bench.spark:load", folder=folder, docs=docs, functions=functions)
        beside = {"load, documents/s": docs / alone["seconds"]}
        if not functions:
            other = run("bench.spark:duck", folder=folder, docs=docs, threads=cores)
            beside["DuckDB, documents/s"] = docs / other["seconds"]
        rate, judged = docs / got["seconds"], docs >= 1_000_000
        reach = f"≥ {aim:,} documents/s"
        met = rate >= aim if judged else None
        yield Figure("backfill", case, rate, "documents/s", beside, None, reach, rate / aim, met, got)
        most = (got["driver"] + got["java"]) / (1 << 30)
        java = {"its Java, GiB": got["java"] / (1 << 30)}
        yield Figure("driver", case, most, "GiB", java, None, "≤ 1 GiB", most, most <= 1)
        if not functions:
            yield Figure("start", master, got["start"], "s", {}, None)
        if verified:
            rate = docs / got["verify"]
            met = rate >= aim if judged else None
            yield Figure("verify", case, rate, "documents/s", {}, None, reach, rate / aim, met)


def crossover(folder: str, sizes: list[int], master: str, drawn: Path) -> Iterator[Figure]:
    """Measure whole runs by size, with the start of Spark, to find the size from which each is the fastest."""
    cores = int(master.removeprefix("local[").removesuffix("]"))
    backfilled, loaded, others = list[float](), list[float](), list[float]()
    for docs in sizes:
        got = run("bench.spark:bulk", folder=folder, docs=docs, master=master, functions=False, verified=False)
        alone = run("bench.spark:load", folder=folder, docs=docs, functions=False)["seconds"]
        other = run("bench.spark:duck", folder=folder, docs=docs, threads=cores)["seconds"]
        whole = got["start"] + got["seconds"]
        for own, seconds in zip((backfilled, loaded, others), (whole, alone, other), strict=True):
            own.append(seconds)
        beside = {"load, s": alone, "DuckDB, s": other, "of which start, s": got["start"]}
        yield Figure("crossover", f"{docs:,} documents", whole, "s", beside, None)
    lines: dict[str, Sequence[float]] = {"backfill": backfilled, "load": loaded, "DuckDB": others}
    drawn.parent.mkdir(parents=True, exist_ok=True)
    plot.svg_by_powers(drawn, f"seconds to fill a store, by documents, on {master}", sizes, lines)


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.spark", description=__doc__)
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--verify", action="store_true", help="also verify what was filled")
    parser.add_argument(
        "--dir",
        default=str(HERE / "run" / "spark"),
        help="make the folder of this run here (on the disk to measure), and delete it at the end",
    )
    parser.add_argument("--results", type=Path, help="where the JSON lines go")
    parser.add_argument("--views", action="append", choices=_AIMS, help="field or function; both, if neither is said")
    parser.add_argument("--crossover", type=int, nargs="+", metavar="DOCS", help="whole runs of these sizes, drawn")
    parser.add_argument("--plot", type=Path, default=HERE / "results" / "crossover.svg", help="where they are drawn")
    asked = parser.parse_args()
    report = Report(machine.named(), asked.results)
    with scratch(asked.dir) as folder:
        kinds = asked.views or list(_AIMS)
        if asked.crossover:
            report.add("spark", crossover(str(folder), asked.crossover, asked.master, asked.plot))
        else:
            report.add("spark", figures(str(folder), asked.docs, asked.master, asked.verify, kinds))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
