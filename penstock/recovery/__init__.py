"""Recovery: a view made right again, from what is remembered of the documents."""

from penstock.recovery.checked import Checked
from penstock.recovery.entries import (
    Left,
    Quarantined,
    QuarantineKind,
    Settled,
    Wanted,
    document_id,
    group_id,
    record_id,
)
from penstock.recovery.large import Numbers
from penstock.recovery.mapping import Mapping, moment_in, same_pairs, shown_pairs
from penstock.recovery.mending import Mender, Replaced
from penstock.recovery.oracle import (
    Recomputed,
    Reducing,
    Shown,
    emission,
    holds,
    read_by,
    recomputed,
    recomputed_large,
    refolded,
    user_of,
)
from penstock.recovery.plain import Rank, Refused, at, group_of, identity, key_of, moment_of, place, rank, value_of
from penstock.recovery.quarantine import (
    QUARANTINE,
    Reject,
    counted,
    quarantine,
    read_rejects,
    rejects_from,
    release,
    without_tails,
)
from penstock.recovery.recompute import RECIPES, Given, result_of
from penstock.recovery.repaired import Mended, Repaired
from penstock.recovery.scan import Scan
from penstock.recovery.shadow import Heard, Shadow, hearing

__all__ = [
    "QUARANTINE",
    "RECIPES",
    "Checked",
    "Given",
    "Heard",
    "Left",
    "Mapping",
    "Mended",
    "Mender",
    "Numbers",
    "QuarantineKind",
    "Quarantined",
    "Rank",
    "Recomputed",
    "Reducing",
    "Refused",
    "Reject",
    "Repaired",
    "Replaced",
    "Scan",
    "Settled",
    "Shadow",
    "Shown",
    "Wanted",
    "at",
    "counted",
    "document_id",
    "emission",
    "group_id",
    "group_of",
    "hearing",
    "holds",
    "identity",
    "key_of",
    "moment_in",
    "moment_of",
    "place",
    "quarantine",
    "rank",
    "read_by",
    "read_rejects",
    "recomputed",
    "recomputed_large",
    "record_id",
    "refolded",
    "rejects_from",
    "release",
    "result_of",
    "same_pairs",
    "shown_pairs",
    "user_of",
    "value_of",
    "without_tails",
]
