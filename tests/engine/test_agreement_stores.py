"""One history on every store: equal counts after each batch, equal digest and rows, reopened or not."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.harness import strategies as some
from tests.harness.checks import counts_of, identities
from tests.harness.worlds import RICH, TINY, TOLD

Batch = tuple[str, Any]


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Draw batches of documents, lines and deletions, good and bad."""
    found: list[Batch] = []
    for _ in range(draw(st.integers(1, 6))):
        table = draw(st.sampled_from(TOLD))
        kind = draw(st.sampled_from(["docs", "lines", "delete"]))
        if kind == "docs":
            found.append((table.name, draw(st.lists(some.documents(table, some.NUMBERS), max_size=10))))
        elif kind == "lines":
            lines = draw(st.lists(some.lines(table, some.NUMBERS), max_size=10))
            found.append((table.name, "".join(f"{line}\n" for line in lines if line).encode()))
        else:
            found.append((table.name, (draw(some.keys(table)),)))
    return found


def run(engine: Any, batch: Batch) -> Any:
    """Put a batch, and return its counts."""
    table, content = batch
    if isinstance(content, tuple):
        return counts_of(engine.delete(table, content[0]))
    return counts_of(engine.put_many(table, content))


def shown(engine: Any) -> dict[str, Any]:
    """Return all rows of all views, the digest and the position."""
    with engine.snapshot() as snap:
        rows = {view.name: identities(snap.view(view.name).items()) for view in RICH.views}
        return rows | {"digest": engine.digest(), "position": snap.position}


@settings(max_examples=settings().max_examples // 3)
@given(history=batches())
def test_memory_and_lmdb_agree(history: list[Batch]) -> None:
    with TemporaryDirectory() as folder:
        synced = Path(folder) / "sync"
        with (
            ps.open(RICH.app(), None) as memory,
            ps.open(RICH.app(), Path(folder) / "group", durability="group") as group,
        ):
            for batch in history:
                with ps.open(RICH.app(), synced, limits=TINY) as reopened:
                    counts = run(memory, batch)
                    assert run(reopened, batch) == counts
                    assert run(group, batch) == counts
                    assert shown(reopened) == shown(memory) == shown(group)
        with ps.open(RICH.app(), synced, readonly=True) as reader, ps.open(RICH.app(), Path(folder) / "group") as again:
            assert shown(reader) == shown(again)
