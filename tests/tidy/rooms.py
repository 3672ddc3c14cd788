"""Rooms of the package: their order, and each exception to the rules with its reason. Every list may only shrink."""

from __future__ import annotations

# A room imports only from rooms of a smaller rank. Two rooms of one rank don't import each other.
RANK = {
    "cache": 0,
    "views": 1,
    "mapreduce": 2,
    "gateway": 3,
    "kafka": 4,
    "spout": 5,
    "sink": 5,
    "core": 6,
    "generations": 7,
    "recovery": 8,
    "remote": 9,
    "partitions": 10,
    "engine": 11,
    "spark": 12,
    "testing": 12,
    "cli": 13,
}

# The `__init__` of these packages offers no names yet: it would import modules that still import upward.
OPEN = (
    "penstock.core",
    "penstock.generations",
    "penstock.recovery.check",
    "penstock.recovery.quarantine",
    "penstock.recovery.repair",
    "penstock.remote",
    "penstock.partitions",
)

_BUILDS = "the commit steps the building of views itself; a protocol of `core` takes its place"
_DESCRIBES = "`described_view` describes a catalog, so it belongs to `core.schema`"
_OPENS = "opening an engine on a core belongs to `engine.opening`"
_TYPE = "a type; a protocol takes its place"

# (module, module that it imports against the order): the reason
UPWARD = {
    ("penstock.core.commit", "penstock.generations.build"): _BUILDS,
    ("penstock.core.commit", "penstock.generations.build_progress"): _BUILDS,
    ("penstock.core.commit", "penstock.partitions.exchange.exchange"): "a protocol of `core` takes its place",
    ("penstock.core.commit", "penstock.recovery"): "the type of a listener; a protocol of `core` takes its place",
    ("penstock.core.reading.content_digest", "penstock.generations.agreement"): _DESCRIBES,
    ("penstock.core.schema", "penstock.generations.agreement"): _DESCRIBES,
    ("penstock.generations.agreed_opening", "penstock.engine.engine"): _OPENS,
    ("penstock.generations.agreed_opening", "penstock.partitions.exchange.exchange"): _OPENS,
    ("penstock.generations.agreed_opening", "penstock.partitions.generation_numbers"): _OPENS,
    ("penstock.generations.agreed_opening", "penstock.partitions.partition_identity"): _OPENS,
    ("penstock.generations.refill_steps", "penstock.partitions.exchange.exchange"): "a protocol takes its place",
    ("penstock.partitions.union.view_building", "penstock.engine.partitioned_reading"): "a base class becomes a part",
    ("penstock.recovery.quarantine.retry_drop", "penstock.partitions.routing"): "the owner becomes an argument",
    ("penstock.recovery.repair.repair_site", "penstock.partitions.union.union_snapshot"): _TYPE,
    ("penstock.remote.server", "penstock.engine.engine"): _TYPE,
    ("penstock.remote.server", "penstock.engine.remote_operations"): "the table of operations becomes an argument",
}

# Packages of one room that import each other, directly or through others
CYCLES: dict[frozenset[str], str] = {
    frozenset({"penstock.cli.commands", "penstock.cli.running"}): "`source_thread` reads with a helper of `load`",
}

# Folders of more than MOST files
MOST = 15
CROWDED = {
    "penstock/cli/commands": "one module for each group of commands",
    "tests/cli/commands": "one module for each command",
    "tests/faults": "each fault has a tool, a campaign and a test",
    "tests/kafka": "all share one broker",
}

# Files of these names may stand in any room. `cli`, `spark` and `testing` may mirror the room that they serve.
COMMON = {"__init__", "__main__", "errors", "protocol"}
MIRRORS = {"cli", "spark", "testing"}
