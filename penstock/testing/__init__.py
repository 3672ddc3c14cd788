"""Crash tests for the engine and for users' apps: a simulator, an oracle, and an engine for unit tests of views."""

from penstock.testing.app_crash_test import CrashReport, crashtest
from penstock.testing.equivalence import assert_crash_equivalent
from penstock.testing.hypothesis_machine import crash_machine
from penstock.testing.laws.laws import Breach, Law
from penstock.testing.seeds.seed_search import Totals, seconds_of
from penstock.testing.simulator.faults import Fault
from penstock.testing.unit import TestEngine

__all__ = [
    "Breach",
    "CrashReport",
    "Fault",
    "Law",
    "TestEngine",
    "Totals",
    "assert_crash_equivalent",
    "crash_machine",
    "crashtest",
    "seconds_of",
]
