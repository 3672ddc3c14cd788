"""Ctrl-C at any moment of a put: the batch is stored or not, and later calls of the engine work.

The test raises the interruption as the n-th function of the package returns, for n over the whole put. This covers the
decoder, the writes of rows, the work after the commit, and the work between batches.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import penstock as ps
from tests.harness.beside import WORLD, Beside, user
from tests.harness.worlds import TINY

PACKAGE = str(Path(ps.__file__).parent)
DOCS = [{"id": key, "g": "bc"[key % 2], "gs": ["y"], "v": key + 1} for key in range(5)]


class Interrupted(KeyboardInterrupt):
    """The exception of Ctrl-C."""


def returns(frame: FrameType, event: str, _: Any) -> bool:
    """Return True if a function of the package returns."""
    generator = frame.f_code.co_flags & inspect.CO_GENERATOR
    # Nothing can be raised out of __del__, nor out of the functions that it calls.
    last = any(own is not None and own.f_code.co_name == "__del__" for own in (frame, frame.f_back))
    return event == "return" and not generator and not last and frame.f_code.co_filename.startswith(PACKAGE)


def commits(_: FrameType, event: str, function: Any) -> bool:
    """Return True if a commit of LMDB returns. A signal waits while the disk takes the commit."""
    return bool(event == "c_return" and function.__name__ == "commit")


def interrupted(n: int, call: Callable[[], Any], at: Callable[[FrameType, str, Any], bool] = returns) -> bool:
    """Interrupt the call at the n-th event of this kind. Return False if the call ended before."""
    left = n

    def look(frame: FrameType, event: str, about: Any) -> None:
        nonlocal left
        if at(frame, event, about):
            left -= 1
            if not left:
                sys.setprofile(None)
                raise Interrupted

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.setprofile(before)
    return False


# Documents of every table, with one held document, and work that is due between batches.
BEFORE = [
    ("users", [user(f"n{key % 3}", 5, key) for key in range(6)]),
    ("plain", [{"id": key, "g": "ab"[key % 2], "gs": ["x", "y"][: key % 3], "v": 1} for key in range(6)]),
    ("plain", [{"id": key, "g": "a", "gs": ["x"], "v": "no" if key == 2 else 7} for key in range(5)]),
    ("patched", [{"id": key, "g": "a", "a": key, "ts": 3} for key in range(3)]),
]
# Records that change every document and every group again.
AFTER = [
    ("plain", [{"id": key, "g": "d", "gs": ["y", "z"], "v": 9} for key in range(3, 8)]),
    ("users", [user(f"n{key % 4}", 6, key) for key in range(8)]),
    ("plain", [{"id": key, "g": "e", "gs": ["y"], "v": key} for key in range(9)]),
]


def put(engine: Any, batches: list[tuple[str, list[Any]]]) -> None:
    """Put batches into the engine, or into its model."""
    for table, docs in batches:
        engine.put_many(table, docs)


def test_interrupted_at_any_moment(tmp_path: Path):
    model = WORLD.model()
    put(model, BEFORE)
    moments = went_in = 0
    for n in range(1, 10_000, 11):
        place = tmp_path / str(n) if n % 3 else None
        with ps.open(WORLD.app(), place, limits=TINY) as engine:
            both = Beside(engine, WORLD)
            both.model = deepcopy(model)
            put(engine, BEFORE)
            stopped = interrupted(n, lambda engine=engine: engine.put_many("plain", DOCS))
            with engine.snapshot() as snap:
                is_in = snap.table("plain").get(4) == DOCS[4]
            if is_in:
                both.model.put_many("plain", DOCS)
            both.check()
            for target in (engine, both.model):
                put(target, AFTER)
            both.check()
        if not stopped:
            assert is_in
            break
        moments += 1
        went_in += is_in
    assert moments > 20
    assert 0 < went_in < moments, "some came before the commit, and some after it"


@pytest.mark.parametrize("n", range(len(BEFORE)))
def test_interrupted_as_a_commit_returns(tmp_path: Path, n: int):
    """The next snapshot and the next batch know the databases that the commit made or changed."""
    with ps.open(WORLD.app(), tmp_path / "store", limits=TINY) as engine:
        both = Beside(engine, WORLD)
        put(engine, BEFORE[:n])
        assert interrupted(1, lambda: put(engine, BEFORE[n : n + 1]), commits)
        table, docs = BEFORE[n]
        with engine.snapshot() as snap:
            is_in = snap.table(table).get(docs[-1]["id"]) == docs[-1]  # the commit may belong to work between batches
        put(both.model, BEFORE[: n + is_in])
        both.check()
        for target in (engine, both.model):
            put(target, AFTER)
        both.check()
        assert engine.check().damaged == ()
    with ps.open(WORLD.app(), tmp_path / "store", limits=TINY) as engine:
        both.engine = engine
        both.check()


def test_a_function_that_writes_to_its_engine_is_told(place: Path | None):
    app = ps.App("loop")

    @app.table("plain", key="id").view(reduce=ps.count())
    def loop(doc: dict[str, Any]) -> Any:
        engine.put("plain", {"id": doc["id"] + 1})
        yield 1

    with ps.open(app, place) as engine:
        assert engine.put("plain", {"id": 1}).held == 1
        (hold,) = engine.status()["views"]["loop"]["holds"]
        assert "let it yield" in hold["reason"]
        with engine.snapshot() as snap:
            assert [key for key, _ in snap.table("plain").items()] == [1]
