"""A subscriber of the feed resumes. It finds changes that contradict its rows, or the rows that a reader sees."""

from typing import Any

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import Engine, open_on
from penstock.testing.simulator.subscriber import Subscriber
from tests.testing.planted import BUGS, planted


def an_app() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")
    names = users.view("namecount", key="name", reduce=ps.count())
    names.view("sizes", key="value", reduce=ps.count())
    return app


def an_engine() -> Engine:
    return open_on(an_app(), MemoryStore())[0]


def found(bug: str) -> list[str]:
    (own,) = (b for b in BUGS if b.name == bug)
    with planted(own):
        engine, subscriber = an_engine(), Subscriber()
        out: list[Any] = []
        for i, name in enumerate(("Sue", "Joe", "Sue")):
            engine.put("users", {"id": i % 2, "name": name})
            out += subscriber.follow(engine)
        return [finding.check for finding in out]


def test_it_has_what_a_reader_sees_and_resumes_where_it_was() -> None:
    engine, subscriber = an_engine(), Subscriber()
    for i, name in enumerate(("Sue", "Joe", "Sue", "Al")):
        engine.put("users", {"id": i % 3, "name": name})
        assert list(subscriber.follow(engine)) == []
        assert subscriber.position == i + 1
    engine.delete("users", 0)
    engine.delete("users", 1)
    assert list(subscriber.follow(engine)) == []
    before = subscriber.changes
    assert list(subscriber.follow(engine)) == []
    assert subscriber.changes == before > 6


def test_what_does_not_fit_is_found() -> None:
    assert set(found("before and after change places")) == {"feed"}
    assert set(found("the row of a commit is not kept")) <= {"feed"}
