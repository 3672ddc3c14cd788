"""The participant against its oracle, over the histories that the reference sink sees too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.connector.memory_sink import MemorySink
from tests.connector.reference.histories import histories, refused
from tests.connector.reference.judgement import Step, differences, judged


@given(histories(), st.integers(1, 9))
def test_a_drawn_history_has_the_outcome_of_the_oracle(history: list[Step], size: int) -> None:
    ids = refused(history)
    sink = MemorySink(refused=ids, pieces=lambda data: [data[:size], data[size:]])
    assert differences(history, judged(history, ids), sink.play(history)) == []
