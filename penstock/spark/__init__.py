"""Spark: what is done to all documents at once, by the engine's own nodes, in tasks side by side."""

from penstock.spark.against import Stale
from penstock.spark.backfill import Backfilled, backfill
from penstock.spark.java import JavaMissing, java_home
from penstock.spark.registering import register
from penstock.spark.session import SparkFailed, session
from penstock.spark.verifying import Difference, Verified, verify

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
