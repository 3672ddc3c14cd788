"""Register the data source in a session, with the app that writing needs."""

from __future__ import annotations

from typing import Any

from penstock.engine import transferred
from penstock.spark.spark_session import spark_sql
from penstock.views import App

__all__ = ["register"]


def register(spark: Any, app: App | None = None) -> Any:
    """Register `format("penstock")` in a session, and return the session. Writing needs `app`.

    spark = ps.spark.register(ps.spark.session()) spark.read.format("penstock").option("store", "state").option("view",
    "namecount").load()
    """
    spark_sql()
    from penstock.spark.dataframe.data_source import PenstockSource  # imports PySpark

    source: Any = PenstockSource
    if app is not None:
        source = type("PenstockSource", (source,), {"app": transferred(app)})
    spark.dataSource.register(source)
    return spark
