"""Spark: bulk work on all documents of a store. Parallel tasks run the engine's own nodes."""

from penstock.spark.backfill_job.backfill_driver import Backfilled, backfill
from penstock.spark.dataframe.registration import register
from penstock.spark.java import JavaMissing, java_home
from penstock.spark.spark_session import SparkFailed, session
from penstock.spark.streaming.manifests import Manifest, NoState, SparkState, StateOfAnotherStream
from penstock.spark.streaming.state_restore import restore_state
from penstock.spark.streaming.stream_driver import SparkStream, ZombieDriver, stream
from penstock.spark.verify_job.source_comparison import Stale
from penstock.spark.verify_job.verify_driver import Difference, Verified, verify

__all__ = [
    "Backfilled",
    "Difference",
    "JavaMissing",
    "Manifest",
    "NoState",
    "SparkFailed",
    "SparkState",
    "SparkStream",
    "Stale",
    "StateOfAnotherStream",
    "Verified",
    "ZombieDriver",
    "backfill",
    "java_home",
    "register",
    "restore_state",
    "session",
    "stream",
    "verify",
]
