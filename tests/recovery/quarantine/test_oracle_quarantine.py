"""Random histories in which maps and reducers fail at times, with retries and drops of held entries.

After the release of everything held, a second store takes the remaining documents without failures. The content of both
stores must be equal to the byte.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.engine import open_engine
from tests.harness.planting import Bug
from tests.harness.worlds import TINY
from tests.recovery.quarantine.held_worlds import VIEWS, Fails, rows, world

Model = dict[str, dict[int, dict[str, Any]]]


class History:
    """A store, and a model of its documents."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self._path = path
        self._draw = random.Random(seed)
        self.fails, self.bad = Fails(), Fails()
        self.app = world(self.fails, self.bad)
        self.engine = open_engine(self.app, path, limits=TINY)
        self.model: Model = {"docs": {}, "merged": {}}
        self._ts = 0
        self._patches = bool(seed % 2)  # without patches the content must be equal to the byte

    def doc(self, key: int, odd: bool = True) -> dict[str, Any]:
        """Return a document. Some view may fail on an `odd` one."""
        draw = self._draw
        out: dict[str, Any] = {"id": key, "name": draw.choice("abc"), "v": draw.randrange(9), "w": draw.randrange(6)}
        if odd and draw.random() < 0.3:
            out["bad"] = True
        if odd and draw.random() < 0.15:
            out["v"] = "many"
        return out

    def step(self) -> None:
        """Do one random step."""
        draw, engine = self._draw, self.engine
        match draw.randrange(12):
            case 0 | 1 | 2 | 3:
                docs = [self.doc(draw.randrange(12)) for _ in range(draw.choice((1, 2, 7, 30)))]
                self.put(docs)
            case 4 if self._patches:
                self._ts += 1
                fields = {**self.doc(draw.randrange(4), odd=False), "ts": self._ts}
                if draw.random() < 0.5:
                    fields["bad"] = draw.random() < 0.5
                engine.put("merged", fields)
                self.model["merged"].setdefault(fields["id"], {}).update(fields)
            case 5:
                key = draw.randrange(12)
                engine.delete("docs", key)
                self.model["docs"].pop(key, None)
            case 6:
                self.bad.now = draw.random() < 0.5
                self.fails.now = draw.random() < 0.5
            case 7 | 8:
                settled = engine.retry(**self.asked())
                assert settled.left == 0 or settled.why
            case 9:
                engine.drop(**(self.asked() or {"kind": "document"}))
            case 10:
                engine.store.core.forget()
                for node in engine.store.core.tables.values():
                    node.forget()
            case 11:
                engine.compact()
                if self._path is not None and draw.random() < 0.3:
                    engine.close()
                    self.engine = open_engine(self.app, self._path, limits=TINY)

    def asked(self) -> dict[str, Any]:
        """Return a random filter of quarantine entries."""
        draw = self._draw
        entries = list(self.engine.quarantine(resting=True))
        match draw.randrange(5):
            case 0:
                return {"view": draw.choice(VIEWS)}
            case 1:
                return {"kind": draw.choice(("document", "group")), "limit": draw.randrange(1, 5)}
            case 2 if entries:
                return {"ids": [e.id for e in draw.sample(entries, draw.randrange(1, len(entries) + 1))]}
            case 3:
                return {"table": draw.choice(("docs", "merged"))}
        return {}

    def put(self, docs: list[dict[str, Any]]) -> None:
        """Put documents into the store and the model."""
        self.engine.put_many("docs", docs)
        self.model["docs"].update((doc["id"], doc) for doc in docs)

    def check_held(self) -> None:
        """Compare the list of quarantine with the counts of the status and with the rows' `held`."""
        engine = self.engine
        listed = list(engine.quarantine(resting=True))
        assert len({entry.id for entry in listed}) == len(listed)
        views = engine.status()["views"]
        for view in VIEWS:
            own = [e for e in listed if e.view == view]
            held = [e for e in own if e.kind is ps.QuarantineKind.DOCUMENT]
            assert views[view]["held"] == sum(not e.resting for e in held), view
            assert views[view]["resting"] == sum(e.resting for e in held), view
            assert views[view]["held_groups"] == len(own) - len(held), view
            assert all(e.told == () for e in held if e.resting), view
            for entry in own:
                if entry.kind is ps.QuarantineKind.GROUP:
                    assert (entry.key, entry.result, True) in rows(engine, view)

    def end(self) -> None:
        """Release everything, and compare the content with that of a store without failures."""
        self.fails.now = self.bad.now = False
        self.put([self.doc(key, odd=False) for key, doc in self.model["docs"].items() if doc["v"] == "many"])
        entries = [e.id for e in self.engine.quarantine(resting=True)]
        if entries:
            assert self.engine.retry(entries).left == 0
        assert list(self.engine.quarantine(resting=True)) == []
        with ps.open(self.app, None) as fresh:
            fresh.put_many("docs", list(self.model["docs"].values()))
            for doc in self.model["merged"].values():
                fresh.put("merged", doc)
            for view in VIEWS:
                assert rows(self.engine, view) == rows(fresh, view), view
            if not self.model["merged"]:
                assert self.engine.digest() == fresh.digest()


def run(path: Path | None, seed: int, steps: int) -> None:
    history = History(path, seed)
    try:
        for _ in range(steps):
            history.step()
        history.check_held()
        history.end()
    finally:
        history.engine.close()


@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 40))
def test_released_content_is_that_of_a_store_without_failures(seed: int, steps: int) -> None:
    run(None, seed, steps)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_on_disk(tmp_path: Path, seed: int) -> None:
    run(tmp_path / "store", seed, 60)


BUGS = [
    Bug(
        "dropping a document leaves what was told of it",
        "gateway.refresh.held_documents:_retracted",
        "minus = view.pair_contributions([held[slot] for slot in new.slots.tolist()], who)",
        "minus = view.pair_contributions([[] for slot in new.slots.tolist()], who)",
    ),
    Bug(
        "a function's emissions are forgotten only in memory when its document is put to rest",
        "gateway.refresh.held_documents:rest",
        "new.remember = _in_place(node, reader, slots)",
        "new.remember = lambda *_: None",
    ),
    Bug(
        "a retried document is remembered in another one's place",
        "gateway.refresh.held_documents:_in_place",
        "order[at] = size + np.arange(at.size)",
        "order[(at + 1) % size] = size + np.arange(at.size)",
    ),
    Bug(
        "what rests is still listed as resting after its next version",
        "mapreduce.view_node:ViewNode.write_holds",
        "if self.rests:",
        "if False:",
    ),
    Bug(
        "a row of a view that is dropped leaves what it yielded",
        "mapreduce.resting_parent_rows:rest_rows",
        "writes.deletes.append((db, [key for key, row in zip(keys, rows, strict=True) if row is not None]))",
        "pass",
    ),
    Bug(
        "a retry takes nothing back",
        "gateway.view_deltas:ViewDeltas.refresh_view",
        "DeltaSides(new, every, every, old, keys)",
        "DeltaSides(new, every[:0], every, self._node.memory.take_fields(new.slots[:0]), keys)",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ps.StoreDamaged)):
        _search()


def _search() -> None:
    for seed in range(40):
        run(None, seed, 40)
