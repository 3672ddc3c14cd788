"""The table of outcomes has one entry for all combinations of facts, and both forms read the same ones."""

import numpy as np

from penstock.gateway.versions.precedence import (
    COMPARE,
    DELETES,
    DOCUMENT,
    EARLIER,
    OUTCOMES,
    SAME_TS,
    STAMPED,
    TOMBSTONE,
    Outcome,
    outcomes_of,
)

OTHERS = (TOMBSTONE, DELETES, EARLIER, SAME_TS)


def test_the_rule_is_that_of_the_semantics() -> None:
    for facts, found in enumerate(OUTCOMES):
        known = facts & (DOCUMENT | TOMBSTONE)
        repeats = facts & SAME_TS or not facts & STAMPED
        if facts & STAMPED and facts & EARLIER and known:
            expected: int = Outcome.LATE
        elif facts & DELETES and facts & STAMPED:
            expected = Outcome.EQUAL if facts & TOMBSTONE and repeats else Outcome.APPLIED
        elif facts & DELETES:
            expected = Outcome.APPLIED if facts & DOCUMENT else Outcome.EQUAL
        else:
            expected = COMPARE if facts & DOCUMENT and repeats else Outcome.APPLIED
        assert found == expected, f"{facts:06b}"


def test_a_column_has_the_outcome_of_each_record() -> None:
    for stamped in (False, True):
        places = np.arange(STAMPED)
        table = OUTCOMES[STAMPED:] if stamped else OUTCOMES[:STAMPED]
        found = outcomes_of(places & DOCUMENT != 0, {bit: places & bit != 0 for bit in OTHERS}, stamped)
        assert found.tolist() == list(table)


def test_a_fact_that_marks_no_record_may_be_left_out() -> None:
    document = np.array([True, False])
    assert outcomes_of(document, {DELETES: None}, False).tolist() == [COMPARE, Outcome.APPLIED]
