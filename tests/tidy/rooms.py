"""Rooms of the package: their order, and each exception to the rules with its reason. Every list may only shrink."""

from __future__ import annotations

# A room imports only from rooms of a smaller rank. Two rooms of one rank don't import each other.
RANK = {
    "cache": 0,
    "connector": 1,
    "views": 1,
    "mapreduce": 2,
    "rpc": 2,
    "join": 3,
    "gateway": 4,
    "kafka": 5,
    "spout": 6,
    "sink": 6,
    "flow": 6,
    "core": 7,
    "generations": 8,
    "recovery": 9,
    "remote": 10,
    "partitions": 11,
    "engine": 12,
    "spark": 13,
    "testing": 13,
    "client": 13,
    "serve": 13,
    "cli": 14,
}

# The `__init__` of these packages offers no names yet: it would import modules that still import upward.
OPEN: tuple[str, ...] = ()

# (module, module that it imports against the order): the reason
UPWARD = {}

# Packages of one room that import each other, directly or through others
CYCLES: dict[frozenset[str], str] = {}

# Files of one room that import each other, directly or through others, also for types alone
FILE_CYCLES: dict[frozenset[str], str] = {}

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
