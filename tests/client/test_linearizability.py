"""Concurrent calls are linearizable, also when answers are lost; three planted bugs are found."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import penstock as ps
from penstock.engine import Engine
from penstock.remote import WRITE, Operation
from penstock.serve.store import snapshot_pool
from penstock.serve.store.snapshot_pool import _PooledSnapshot
from penstock.serve.store.store_access import HolderAbsent, LocalAccess
from penstock.serve.store.store_reads import StoreReads
from tests.client.histories import Event, History, linearizable
from tests.serve.asgi import shop
from tests.serve.grpc.rpc_server import TOKEN, RpcServer


class LossyAccess(LocalAccess):
    """A holder that is absent now and then, or whose answer is lost after the commit."""

    def __init__(self, engine: Engine, seed: int) -> None:
        super().__init__(engine)
        self._choose = random.Random(seed)

    def call(self, operation: Operation[Any], progress: Callable[..., None] | None = None, /, **arguments: Any) -> Any:
        chance = self._choose.random()
        if chance < 0.1:
            raise HolderAbsent("store")
        done = super().call(operation, progress, **arguments)
        if chance > 0.85:
            raise ps.Closed("the holder")
        return done


class EarlyAccess(LocalAccess):
    """A planted bug: the answer to a write comes before its commit, which the next write brings."""

    def __init__(self, engine: Engine, seed: int) -> None:
        super().__init__(engine)
        self._waiting: dict[str, Any] | None = None

    def call(self, operation: Operation[Any], progress: Callable[..., None] | None = None, /, **arguments: Any) -> Any:
        if operation is not WRITE:
            return super().call(operation, progress, **arguments)
        before, self._waiting = self._waiting, None
        if before is not None:
            super().call(operation, progress, **before)
        done = super().call(operation, progress, **(arguments | {"dry_run": True}))
        self._waiting = arguments
        return done


def found_in(access: type[LocalAccess], histories: int) -> bool:
    """Run histories. Return True if one of them is not linearizable."""
    for seed in range(histories):
        with ps.open(shop(), None) as engine, RpcServer(engine, shop(), access(engine, seed)) as server:  # type: ignore[call-arg]
            history = History(server.target, TOKEN, seed)
            history.run()
            if not history.holds:
                return True
    return False


def test_calls_are_linearizable_when_answers_are_lost() -> None:
    assert not found_in(LossyAccess, 3)


def test_a_reply_before_the_commit_is_found() -> None:
    assert found_in(EarlyAccess, 20)


def test_a_read_of_an_old_snapshot_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PooledSnapshot, "usable", lambda self, now, eventual: True)
    assert found_in(LossyAccess, 20)


def test_an_ignored_position_token_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def ignored(self: StoreReads, position: Any, until: float) -> Iterator[ps.Snapshot]:
        with self.eventual() as snap:
            yield snap

    monkeypatch.setattr(StoreReads, "reached", ignored)
    monkeypatch.setattr(snapshot_pool, "_EVENTUAL", 1.0)
    assert found_in(LossyAccess, 20)


def test_the_search_knows_orders() -> None:
    write, read = Event(0, 5, None, 1), Event(1, 2, None, None)
    assert linearizable([write, read])
    assert linearizable([write, Event(1, 2, 1, 1)])
    assert not linearizable([write, Event(6, 7, None, None)])
    assert not linearizable([write, Event(1, 2, 1, 1), Event(3, 4, None, None)])
    unknown = Event(0, 1 << 60, None, 1, sure=False)
    assert linearizable([unknown, Event(5, 6, None, None)])
    assert linearizable([unknown, Event(5, 6, None, None), Event(7, 8, 1, 1)])
    assert not linearizable([unknown, Event(5, 6, 1, 1), Event(7, 8, None, None)])
