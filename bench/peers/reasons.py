"""The ratios to reach, and the reason of each ratio that is missed, one line with the name of the peer."""

from __future__ import annotations

AIMS = {
    ("PostgreSQL", "upserts"): 4.0,
    ("Flink", "memory"): 7.0,
    ("Flink", "storage"): 7.0,
    ("Kafka Streams", "upserts"): 15.0,
    ("Pathway", "upserts"): 6.0,
    ("Pathway", "append-only"): 1.0,
    ("Bytewax", "memory"): 10.0,
    ("DBSP", "storage"): 2.5,
    ("DBSP", "memory"): 1.5,
}
"""On workload 1: the rate of Penstock as a multiple of the rate of a peer, by peer and setting."""

LIMITS = frozenset({"decode only", "append and fsync", "Rust"})
"""Limits of the machine: they are shown, and no aim is to be ahead of them."""

REASONS: dict[tuple[int, str, str], str] = {}
"""The reason of a missed ratio by workload, case and peer."""


def aim(workload: int, system: str, setting: str) -> float | None:
    """Return the ratio to reach, or None for a limit of the machine."""
    if system in LIMITS:
        return None
    return AIMS.get((system, setting), 1.0) if workload == 1 else 1.0


def reason(workload: int, case: str, system: str) -> str:
    """Return the reason of a missed ratio, as one sentence."""
    return REASONS.get((workload, case, system), "the profile of this case is not taken yet.")
