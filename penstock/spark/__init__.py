"""Spark: bulk work on all documents of a store. Parallel tasks run the engine's own nodes."""

from penstock.spark.backfill_job.backfill_driver import Backfilled, backfill
from penstock.spark.dataframe.registration import register
from penstock.spark.java import JavaMissing, java_home
from penstock.spark.spark_session import SparkFailed, session
from penstock.spark.verify_job.source_comparison import Stale
from penstock.spark.verify_job.verify_driver import Difference, Verified, verify

__all__ = [
    "Backfilled",
    "Difference",
    "JavaMissing",
    "SparkFailed",
    "Stale",
    "Verified",
    "backfill",
    "java_home",
    "register",
    "session",
    "verify",
]
