"""Spark: bulk work on all documents of a store. Parallel tasks run the engine's own nodes."""

from penstock.spark.backfill_job.bulk_fill import Backfilled, backfill
from penstock.spark.dataframe.registration import register
from penstock.spark.java import JavaMissing, java_home
from penstock.spark.spark_session import SparkFailed, session
from penstock.spark.verify_job.against_source import Stale
from penstock.spark.verify_job.bulk_check import Difference, Verified, verify

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
