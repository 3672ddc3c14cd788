"""Engines on stores that the caller has opened: the only partition of a store, or one of several."""

from __future__ import annotations

from penstock.cache import Limits, Store, WriterLock
from penstock.core import MEMORY, Core, Settings
from penstock.engine.engine import Engine
from penstock.engine.unpartitioned_store import UnpartitionedStore
from penstock.flow import Clock, SystemClock
from penstock.generations import GenerationNumbers, Migrate, core_on
from penstock.partitions import PartitionExchange
from penstock.views import App

__all__ = ["open_on", "open_partition"]


def open_on(
    app: App,
    store: Store,
    limits: Limits | None = None,
    seed: int | None = None,
    memory: int = MEMORY,
    migrate: Migrate = "auto",
    clock: Clock | None = None,
) -> tuple[Engine, Core]:
    """Make an engine, and its core, on a store that the caller has opened. The simulator uses this.

    `seed` is the seed of hashed keys in an empty store; by default it is random. `clock` is that of streams. Changed
    views are built only by `core.build_step()`.
    """
    settings = Settings(memory, limits or Limits(), clock=clock or SystemClock())
    core = core_on(app, store, "memory", settings, seed, migrate)
    return Engine(UnpartitionedStore(core, None, None, readonly=False)), core


def open_partition(
    app: App,
    store: Store,
    exchange: PartitionExchange,
    path: str | None,
    owner: WriterLock | None,
    settings: Settings,
    concert: GenerationNumbers | None = None,
) -> UnpartitionedStore:
    """Open one partition on a store that the caller has opened; views that changed begin as all agreed."""
    core = core_on(app, store, path or "memory", settings, exchange.ranges.seed, "refuse", exchange, concert)
    return UnpartitionedStore(core, path, owner, readonly=False)
