"""A Spark session: an existing one, or one that this module starts with small demands.

Invariants:

- A session that somebody else started is left as it was: settings for a piece of work are restored after it.
- A session of this module listens on this machine only, and uses the Python and the paths of this process.
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

__all__ = ["SparkFailed", "awake", "blob_batches", "error_line", "in_tasks", "map_arrow", "ran", "session"]

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
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.shuffle.compress": "false",  # the shuffle stays on this machine
    "spark.shuffle.checksum.enabled": "false",
}
_BLOBS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}


_TOGETHER = 8  # buckets, ranges or parts per task, at most


class SparkFailed(PenstockError):
    """A piece of work that Spark could not do.

    >>> print(SparkFailed("reading", "ModuleNotFoundError: No module named 'shop'"))
    Spark failed while reading: ModuleNotFoundError: No module named 'shop'; see its log, fix that and run this again
    """

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(stage, reason)
        self.stage = stage
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark failed while {self.stage}: {self.reason}; see its log, fix that and run this again"


def spark_sql() -> Any:
    """Return the module `pyspark.sql`. Raise MissingExtra if the package is not installed."""
    try:
        with _no_word_of_pandas():
            importlib.import_module("pyspark.testing")  # PySpark imports it later, and would then print a warning
            return importlib.import_module("pyspark.sql")
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None


@contextmanager
def _no_word_of_pandas() -> Iterator[None]:
    """Hide PySpark's warnings about versions of pandas, which no code here uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def session(master: str | None = None, memory: str = "480m", **conf: str) -> Any:
    """Return the session of this process, or start one.

    `master` says where a new session runs; the default is all cores of this machine. `memory` is the memory of its
    driver, and `conf` has further settings.
    """
    sql = spark_sql()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return active
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # otherwise each thread of Java keeps its freed memory
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
        own |= _LOCAL
        if "Tiered" not in asked:
            java.append("-XX:TieredStopAtLevel=1")  # Java only moves bytes, and must leave the cores to workers
    builder = sql.SparkSession.builder.master(where).appName("penstock")
    for name, value in {**own, **conf, _JAVA: " ".join(filter(None, java))}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise SparkFailed("starting", error_line(error)) from error


@contextmanager
def blob_batches(spark: Any) -> Iterator[None]:
    """Send large rows to Python in small batches while the block runs."""
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
    """Start a Python worker for each core, with the imports of tasks. Otherwise the first tasks wait for them."""
    many = spark.sparkContext.defaultParallelism
    rows = [(i, bytearray()) for i in range(many)]
    frame = in_tasks(spark.createDataFrame(rows, "p int, blob binary"), "p", many)
    ran("starting workers", in_tasks(map_arrow(frame, _waking, "p int, blob binary"), "p", many).collect)


def _waking(batches: Iterator[Any]) -> Iterator[Any]:
    importlib.import_module("penstock.spark")
    yield from (batch.select(["p", "blob"]) for batch in batches)


def map_arrow(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Any:
    """Return a frame of the results of `work` on the Arrow batches of a frame."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        return work(batches)

    with _no_word_of_pandas():
        return frame.mapInArrow(task, schema)


def in_tasks(frame: Any, column: str, many: int) -> Any:
    """Return the frame distributed to tasks by a column of numbers below `many`. Rows of one number share a task.

    A task costs some tens of milliseconds, independent of its work. So there are two for each core, and more only if a
    task would get too many numbers.
    """
    tasks = min(many, max(2 * frame.sparkSession.sparkContext.defaultParallelism, -(-many // _TOGETHER)))
    return frame.selectExpr("*", f"{column} % {tasks} as task").repartitionById(tasks, "task")


def ran(stage: str, work: Callable[[], Any]) -> Any:
    """Return the result of a job. If it fails, raise SparkFailed with the last line of its traceback."""
    try:
        return work()
    except PenstockError:
        raise
    except Exception as error:
        raise SparkFailed(stage, error_line(error)) from error


def error_line(error: BaseException) -> str:
    """Return the line with the reason: the last of a worker's traceback, else the first."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    begun = [i for i, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if begun:
        for line in lines[begun[0] + 1 :]:
            if line[:1].isalpha() and not line.startswith(("File ", "at ", "During handling")) and ": " in line:
                return line[:300]
    return (lines[0].strip() if lines else type(error).__name__)[:300]
