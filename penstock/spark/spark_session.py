"""A Spark session: the one that is there, or one of our own, that asks for no more than the work here needs.

Invariants:

- a session that somebody else made is left as it was found: what is set for a piece of work is set back after it;
- one of our own listens to this machine alone, and is told the Python and the paths of this process.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.cache import MissingExtra, PenstockError
from penstock.spark.java import java_home

__all__ = ["SparkFailed", "awake", "blob_batches", "in_tasks", "map_arrow", "ran", "session"]

MASTER = "local[*]"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA = "spark.driver.extraJavaOptions"
_OWN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.worker.reuse": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_HERE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.shuffle.compress": "false",  # what is shuffled goes to this machine's own memory and back
    "spark.shuffle.checksum.enabled": "false",
}
_BLOBS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}


_TOGETHER = 8  # buckets, ranges or parts that a task has at most


class SparkFailed(PenstockError):
    """A piece of work that Spark could not do.

    >>> print(SparkFailed("reading", "ModuleNotFoundError: No module named 'shop'"))
    Spark failed while reading: ModuleNotFoundError: No module named 'shop'; see its log, mend that and run this again
    """

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(stage, reason)
        self.stage = stage
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark failed while {self.stage}: {self.reason}; see its log, mend that and run this again"


def spark_sql() -> Any:
    """The module `pyspark.sql`; MissingExtra without the package."""
    try:
        with _no_word_of_pandas():
            importlib.import_module("pyspark.testing")  # which PySpark imports later, and then there would be a word
            return importlib.import_module("pyspark.sql")
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None


@contextmanager
def _no_word_of_pandas() -> Iterator[None]:
    """PySpark has reservations about versions of pandas, which it asks for and which nothing here uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def session(master: str | None = None, memory: str = "480m", **conf: str) -> Any:
    """The session of this process, or one that is made for it.

    `master` is where a session that is made runs, all cores of this machine unless it is given; `memory` is for its
    driver, `conf` are settings of it.
    """
    sql = spark_sql()
    there = sql.SparkSession.getActiveSession()
    if there is not None:
        return there
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # else each thread of Java's keeps what it gave back
    asked = conf.get(_JAVA, "")
    java = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", asked]
    if "GC" not in asked:
        java.append("-XX:+UseSerialGC")  # it takes the least memory beside the heap
    where = master or MASTER
    own = {
        **_OWN,
        "spark.driver.memory": memory,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    if where.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        own |= _HERE
        if "Tiered" not in asked:
            java.append("-XX:TieredStopAtLevel=1")  # it moves bytes, and compiling well takes the cores of the workers
    builder = sql.SparkSession.builder.master(where).appName("penstock")
    for name, value in {**own, **conf, _JAVA: " ".join(filter(None, java))}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise SparkFailed("starting", _said(error)) from error


@contextmanager
def blob_batches(spark: Any) -> Iterator[None]:
    """Rows that hold much each go to Python a few at a time."""
    before = {name: spark.conf.get(name, None) for name in _BLOBS}
    for name, value in _BLOBS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def awake(spark: Any) -> None:
    """Have a Python worker for each core, with what tasks need: else the first tasks wait for that."""
    many = spark.sparkContext.defaultParallelism
    rows = [(i, bytearray()) for i in range(many)]
    frame = in_tasks(spark.createDataFrame(rows, "p int, blob binary"), "p", many)
    ran("starting workers", in_tasks(map_arrow(frame, _waking, "p int, blob binary"), "p", many).collect)


def _waking(batches: Iterator[Any]) -> Iterator[Any]:
    importlib.import_module("penstock.spark")
    yield from (batch.select(["p", "blob"]) for batch in batches)


def map_arrow(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Any:
    """A frame's Arrow batches through the work of a task."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        return work(batches)

    with _no_word_of_pandas():
        return frame.mapInArrow(task, schema)


def in_tasks(frame: Any, column: str, many: int) -> Any:
    """The rows of a frame in tasks, by a column of numbers below `many`: of equal numbers one task has all.

    A task costs some tens of milliseconds, whatever it does. So there are two for each core, and more only where one
    would have too many numbers.
    """
    tasks = min(many, max(2 * frame.sparkSession.sparkContext.defaultParallelism, -(-many // _TOGETHER)))
    return frame.selectExpr("*", f"{column} % {tasks} as task").repartitionById(tasks, "task")


def ran(stage: str, work: Callable[[], Any]) -> Any:
    """What a job gives; SparkFailed with the last word of its traceback where it fails."""
    try:
        return work()
    except PenstockError:
        raise
    except Exception as error:
        raise SparkFailed(stage, _said(error)) from error


def _said(error: BaseException) -> str:
    """The line that says what went wrong: of a worker's traceback the last, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    begun = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if begun:
        for line in lines[begun[0] + 1 :]:
            if line[:1].isalpha() and not line.startswith(("File ", "at ", "During handling")) and ": " in line:
                return line[:300]
    return (lines[0] if lines else type(error).__name__)[:300]
