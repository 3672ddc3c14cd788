"""What must hold of a store whose writer was killed.

The store says itself how far it came (the committed offset). Then: all that was acknowledged is in, and at most the one
batch in flight more; documents and views are exactly those of the batches up to there; the views are a recompute of the
stored documents; and going on from there ends in the content of a writer that was never killed.
"""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import penstock as ps
from tests.core.crash import crash_writer as writer
from tests.harness.checks import check, check_recompute
from tests.harness.worlds import SHOP, TINY
from tests.oracle.model import Model

ROOT = Path(__file__).resolve().parents[3]


def start(path: Path, durability: str, batches: int, size: int, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A writer in a process of its own, from an empty store, perhaps under a tracer."""
    program = [
        sys.executable,
        "-m",
        "tests.core.crash.crash_writer",
        str(path),
        durability,
        "0",
        str(batches),
        str(size),
    ]
    return subprocess.Popen([*under, *program], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def acknowledged(said: str) -> int:
    """The last number in what the writer said; 0 if it was none. A line cut by the kill was not said."""
    whole = said[: said.rfind("\n") + 1].split()
    return int(whole[-1]) if whole and whole[-1] != "open" else 0


@lru_cache(maxsize=4096)
def model_after(batches: int, size: int) -> Model:
    """The oracle after so many batches."""
    model = SHOP.model()
    for number in range(batches):
        model.ingest(list(writer.records(number, size)), writer.SOURCE, number + 1)
    return model


@lru_cache(maxsize=64)
def digest_after(batches: int, size: int) -> str:
    """The digest of a store in memory after so many batches."""
    with ps.open(SHOP.app(), None) as engine:
        for _ in writer.write(engine, 0, batches, size):
            pass
        return engine.digest()


def check_store(path: Path, said: str, batches: int, size: int) -> int:
    """Everything that must hold; gives the number of batches that were in."""
    least = acknowledged(said)
    with ps.open(SHOP.app(), path, limits=TINY) as engine:
        with engine.snapshot() as snap:
            done = dict(snap.sources).get(writer.SOURCE, 0)
        assert least <= done <= min(least + 1, batches), f"{least} batches were acknowledged, {done} are in"
        model = model_after(done, size)
        check(engine, model)
        check_recompute(engine, model)
        for _ in writer.write(engine, done, batches, size):
            pass
        assert engine.digest() == digest_after(batches, size)
    return done


def check_puts(path: Path, said: str) -> int:
    """The same for a writer of single documents by tickets: what is in is what was put first, without a gap."""
    least = acknowledged(said)
    with ps.open(SHOP.app(), path, limits=TINY) as engine:
        with engine.snapshot() as snap:
            stored = sorted(key for key, _ in snap.table("users").items())
        assert stored == list(range(len(stored))), "a document is missing before one that is there"
        assert least <= len(stored), f"{least} documents were acknowledged, {len(stored)} are in"
        model = SHOP.model()
        for number in range(len(stored)):
            model.put("users", writer.document(number))
        check(engine, model)
        check_recompute(engine, model)
    return len(stored)
