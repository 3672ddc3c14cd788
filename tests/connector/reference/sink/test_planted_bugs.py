"""Mistakes that are planted in the oracle. The recorded transcripts find each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connector.reference import oracle
from tests.connector.reference.sink.test_transcripts import RECORDED, wrong

SOURCE = Path(oracle.__file__).read_text("utf-8")
MISTAKES = {
    "data after a gap is written": ("if offset == self.received:", "if offset >= self.received:"),
    "a gap is forgotten": ("            self.abort_next = True", "            pass"),
    "a gap aborts each later vote": ("(txn, where, valid), False", "(txn, where, valid), self.abort_next"),
    "an abort keeps the bytes": ("self.received if commit else self.committed)", "self.received)"),
    "an abort commits": ("self.prepared if commit else", "self.prepared if True else"),
    "a commit keeps the transaction open": ("        self.open = None", "        pass"),
    "any transaction is decided": (" or self.open[0] != txn", ""),
    "a vote ignores the start": ("self.committed == start <= end", "start <= end"),
    "a vote ignores the end": ("start <= end <= self.received", "start <= end"),
    "a vote ignores the stream": ("stream == 1 and ", ""),
    "a range may go backwards": ("start <= end <= self.received", "start and end <= self.received"),
    "an empty range is voted abort": ("start <= end", "start < end"),
    "the program's refusal is ignored": ("not (self.abort_next or refused)", "not self.abort_next"),
    "a repeated vote is abort": ("return self.open == (txn, where, True)", "return False"),
    "a hello keeps the tail": ("worker.truncate(worker.prepared)", "worker.truncate(worker.received)"),
    "a hello cuts an open vote": ("worker.truncate(worker.prepared)", "worker.truncate(worker.committed)"),
    "an abort vote keeps its bytes": ("if self.open and self.open[2] else", "if self.open else"),
    "an abort vote is not listed": ("if worker.open else []", "if worker.open and worker.open[2] else []"),
    "a cut frees no name": (" if number not in connections}", "}"),
    "workers share one state": ("self.workers.setdefault(name,", 'self.workers.setdefault("w1",'),
    "a worker that left keeps its offsets": ("self.workers.pop(name)", "self.workers[name]"),
    "eos names the committed offset": ('("ack", 1, [(1, worker.received)])', '("ack", 1, [(1, worker.committed)])'),
}  # fmt: skip


def planted(old: str, new: str) -> Any:
    """Return the oracle's class with a mistake."""
    assert SOURCE.count(old) == 1, f"the oracle has no single {old!r}: plant this mistake anew"
    names: dict[str, Any] = {"__name__": oracle.__name__}
    exec(compile(SOURCE.replace(old, new), "oracle with a mistake", "exec"), names)
    return names["Oracle"]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_oracle_is_found(mistake: str) -> None:
    cls = planted(*MISTAKES[mistake])
    assert any(_found(name, cls) for name in RECORDED)


def _found(name: str, cls: Any) -> bool:
    """Return true if a transcript disagrees with the oracle, or if the oracle fails."""
    try:
        return wrong(name, lambda case: cls(case.refused)) is not None
    except (KeyError, AttributeError):
        return True
