"""Batches of members with outdated knowledge of the source: the fence refuses them. Without it, records are skipped."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

import penstock as ps
from penstock.gateway import TableBatch
from penstock.remote.wire_messages import spout_batch_data, spout_batch_of
from penstock.spout import Remembered, SourceMoved, SpoutBatch
from penstock.views import Counts

SOURCE = "users=kafka:users/0"
OLD, NEW = b"the first topic", b"the second topic"


def app() -> ps.App:
    own = ps.App("shop")
    own.table("users", key="id").view("names", key="name", reduce=ps.count())
    return own


def batch(start: int, keys: Sequence[int], name: str, note: bytes = OLD) -> SpoutBatch:
    """Return records of a member, one for each offset from `start`."""
    lines = [json.dumps({"id": key, "name": name}).encode() for key in keys]
    resume = start + len(keys)
    return SpoutBatch(
        TableBatch(lines), SOURCE, start, resume, note, raw=False, offsets=range(start, resume), fenced=True
    )


def pin(stood: Remembered | None, offset: int, note: bytes = OLD) -> SpoutBatch:
    """Return a batch that sets the offset at which the source begins for a member."""
    start = 0 if stood is None else stood.offset
    return SpoutBatch(TableBatch([]), SOURCE, start, offset, note, again=True, raw=False, fenced=True, stood=stood)


def give(engine: ps.Engine, own: SpoutBatch) -> Counts:
    """Load the batch in the form in which another process sends it."""
    (counts,) = [counts for _, counts in engine.load("users", [spout_batch_of(spout_batch_data(own))])]
    return counts


def names(engine: ps.Engine) -> dict[Any, Any]:
    with engine.snapshot() as snap:
        return dict(snap.view("names").items())


def stands(engine: ps.Engine) -> Remembered | None:
    with engine.snapshot() as snap:
        return snap.remembered(SOURCE)


@pytest.fixture(params=[None, 1, 3], ids=["in one piece", "one partition", "three partitions"])
def engine(request: pytest.FixtureRequest) -> Any:
    with ps.open(app(), None, partitions=request.param) as own:
        yield own


def test_what_is_in_is_late(engine: ps.Engine) -> None:
    give(engine, pin(None, 0))
    assert give(engine, batch(0, range(4), "old")).applied == 4
    assert give(engine, batch(4, range(4), "new")).applied == 4
    before = engine.digest()
    assert give(engine, batch(0, range(4), "old")).late == 4
    assert engine.digest() == before
    assert names(engine) == {"new": 4}
    with pytest.raises(SourceMoved):
        give(engine, batch(9, [9], "of a gap"))


def test_a_source_begins_once(engine: ps.Engine) -> None:
    with pytest.raises(SourceMoved):
        give(engine, batch(0, [1], "before it began"))
    slow = pin(None, 7)
    give(engine, pin(None, 0))
    give(engine, batch(0, range(4), "in"))
    for late in (slow, pin(None, 0), pin(Remembered(0, OLD), 9), pin(Remembered(4, NEW), 9)):
        with pytest.raises(SourceMoved):
            give(engine, late)
    assert stands(engine) == Remembered(4, OLD)
    give(engine, pin(Remembered(4, OLD), 2))
    assert stands(engine) == Remembered(2, OLD)


def test_offsets_of_two_topics_of_one_name_never_meet(engine: ps.Engine) -> None:
    give(engine, pin(None, 0))
    give(engine, batch(0, range(4), "old"))
    stale = batch(4, range(4, 8), "old")
    give(engine, pin(Remembered(4, OLD), 0, NEW))
    give(engine, batch(0, range(4, 8), "new", NEW))
    with pytest.raises(SourceMoved):
        give(engine, stale)
    assert (names(engine), stands(engine)) == ({"old": 4, "new": 4}, Remembered(4, NEW))


def test_without_a_fence_it_would_count(engine: ps.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("partitions.cached_offsets", "engine.unpartitioned_store"):
        module = sys.modules[f"penstock.{name}"]
        monkeypatch.setattr(module, "check_fence", lambda *_: None)
    give(engine, pin(None, 0))
    give(engine, batch(0, range(4), "in"))
    give(engine, pin(None, 7))
    assert stands(engine) == Remembered(7, OLD), "what stands from 4 to 7 is passed over"
    give(engine, pin(Remembered(7, OLD), 0, NEW))
    assert give(engine, batch(0, range(8, 12), "of the old topic", OLD)).applied == 4
