"""What the holder of a store does for other processes: a table of names and functions.

An operation gets the open engine, its request as plain data, and a function to tell how far it is; what it returns is
plain data again. Whatever it raises goes back as the error it is. Another operation is another line of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cache import decode_key
from penstock.core.catalog import Resume
from penstock.partitions.member import Member
from penstock.remote.wire_messages import (
    batch_of,
    checked_data,
    counts_data,
    early_of,
    production_of,
    record_of,
    repaired_data,
    spout_batch_of,
)
from penstock.views import Counts, Progress

if TYPE_CHECKING:
    from penstock.core.input.batches import Batch
    from penstock.engine.engine import Engine

__all__ = ["OPERATIONS", "Tell"]

Tell = Callable[[dict[str, Any]], None]
"""Tells whoever asked how far it is; an operation that takes long calls it between its steps."""
Operation = Callable[["Engine", dict[str, Any], Tell], Any]


def _write(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    """One transaction of batches of several tables."""
    return counts_data(engine.take(_tables(asked), asked["strict"], asked.get("atomic", False)))


def _ingest(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return counts_data(engine.ingest(map(record_of, asked["records"]), asked["source"], asked["resume"]))


def _load(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    total = Counts()
    for _, counts in engine.load(asked["table"], [spout_batch_of(asked["batch"])], long=False):
        total += counts
    return counts_data(total)


def _remembered(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any] | None:
    with engine.snapshot() as snap:
        found = snap.remembered(asked["source"])
    return None if found is None else [found.offset, found.note]


def _compact(engine: Engine, asked: dict[str, Any], tell: Tell) -> dict[str, Any]:
    return engine.compact(lambda done, total: tell({"done": done, "total": total})).data()


def _repost(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return repaired_data(engine.repost_many(asked["values"], progress=_passed(tell)))


def _restate(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    wanted = asked["asked"]
    return repaired_data(
        engine.restate(asked["name"], None if wanted is None else decode_key(wanted), progress=_passed(tell))
    )


def _retry(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return engine.retry(**asked["wanted"], progress=_passed(tell)).data()


def _drop(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return engine.drop(**asked["wanted"], progress=_passed(tell)).data()


def _check(engine: Engine, asked: dict[str, Any], tell: Tell) -> dict[str, Any]:
    return checked_data(engine.check(asked["fix"], progress=_passed(tell)))


def _migrate(engine: Engine, asked: dict[str, Any], tell: Tell) -> dict[str, Any]:
    return engine.migrate_as(asked["wanted"], _passed(tell)).data()


def _begin_refill(engine: Engine, asked: dict[str, Any], tell: Tell) -> int:
    return engine.begin_refill(asked["tables"], asked["wanted"])


def _refill(engine: Engine, asked: dict[str, Any], tell: Tell) -> dict[str, Any]:
    def progress(what: str, done: int, total: int) -> None:
        tell({"what": what, "done": done, "total": total})

    return engine.refill(asked["folder"], progress).data()


def _settle(engine: Engine, asked: dict[str, Any], tell: Tell) -> None:
    """Wait until all that was taken before shows in every view."""
    engine.settle()


def _passed(tell: Tell) -> Progress:
    return lambda done, total: tell({"done": done, "total": total})


def _memory(engine: Engine, asked: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Bytes in use by table and view, about, and in all."""
    status = engine.status()
    named = {kind: {name: about["memory"] for name, about in status[kind].items()} for kind in ("tables", "views")}
    return {"memory": status["memory"], **named}


def _own(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    """One transaction of what a partition owns."""
    sources = {name: Resume(offset, note, again) for name, offset, note, again in asked["sources"]}
    others = {other: _tables_of(tables) for other, tables in asked["others"]}
    took = _member(engine).take(_tables(asked), sources, asked["number"], asked["kinds"], asked["strict"], others)
    return [counts_data(own) for own in took]


def _tried(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return counts_data(_member(engine).tried(_tables(asked), asked["kinds"]))


def _tables(asked: dict[str, Any]) -> dict[str, list[Batch]]:
    return _tables_of(asked["tables"])


def _tables_of(tables: dict[str, list[Any]]) -> dict[str, list[Batch]]:
    return {name: [batch_of(data) for data in parts] for name, parts in tables.items()}


def _receive(engine: Engine, asked: dict[str, Any], tell: Tell) -> int:
    """What another partition sent."""
    return _member(engine).receive(production_of(asked["production"]))


def _hear(engine: Engine, asked: dict[str, Any], tell: Tell) -> None:
    """What another partition tells early."""
    _member(engine).hear(early_of(asked["early"]))


def _standing(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return _member(engine).standing().data()


def _marks(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    return _member(engine).marks().data()


def _swept(engine: Engine, asked: dict[str, Any], tell: Tell) -> list[Any]:
    """A step of building views."""
    return _member(engine).swept(asked["limit"], asked["switch"]).data()


def _noted(engine: Engine, asked: dict[str, Any], tell: Tell) -> bytes:
    return _member(engine).note(asked["source"])


def _repair(engine: Engine, asked: dict[str, Any], tell: Tell) -> Any:
    return _member(engine).repair(asked["step"], *asked["what"])


def _alive(engine: Engine, asked: dict[str, Any], tell: Tell) -> bool:
    return True


def _member(engine: Engine) -> Member:
    return Member(engine)


OPERATIONS: dict[str, Operation] = {
    "write": _write,
    "ingest": _ingest,
    "load": _load,
    "remembered": _remembered,
    "settle": _settle,
    "compact": _compact,
    "repost": _repost,
    "restate": _restate,
    "check": _check,
    "retry": _retry,
    "drop": _drop,
    "migrate": _migrate,
    "begin_refill": _begin_refill,
    "refill": _refill,
    "memory": _memory,
    "own": _own,
    "tried": _tried,
    "receive": _receive,
    "hear": _hear,
    "standing": _standing,
    "marks": _marks,
    "swept": _swept,
    "note": _noted,
    "repair": _repair,
    "alive": _alive,
}
