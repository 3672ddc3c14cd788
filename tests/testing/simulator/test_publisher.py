"""The publisher, message by message: pending groups, repeated changes, and changes that arrive too late."""

from collections.abc import Iterator
from random import Random

import pytest

from penstock.cache import MemoryStore
from penstock.testing.simulator.faults import Points
from penstock.testing.simulator.publisher import Downstream, Link, Pub

VIEWS = ["namecount"]


class Snap:
    """A view as a dict, at a position."""

    def __init__(self, position: int, **rows: int) -> None:
        self.position = position
        self._rows = rows

    def view(self, name: str) -> "Snap":
        assert name == "namecount"
        return self

    def items(self) -> Iterator[tuple[str, int]]:
        return iter(self._rows.items())


@pytest.fixture
def downstream() -> Downstream:
    return Downstream()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def a_node(store: MemoryStore, downstream: Downstream) -> Pub:
    return Pub(store, downstream, Points())


def holds(downstream: Downstream) -> dict[str, int]:
    return dict(downstream.rows("namecount").values())


def test_changes_are_sent_once(store: MemoryStore, downstream: Downstream) -> None:
    node = a_node(store, downstream)
    assert node.poll(Snap(1, Sue=1), VIEWS) == 1
    assert node.poll(Snap(1, Sue=1), VIEWS) == 0
    assert node.poll(Snap(2, Joe=1), VIEWS) == 2
    assert holds(downstream) == {"Joe": 1}
    assert node.pending == {}


@pytest.mark.parametrize("link", [Link.DOWN, Link.DEAF, Link.SLOW])
def test_what_is_not_answered_is_pending_and_sent_again(store: MemoryStore, downstream: Downstream, link: Link) -> None:
    node = a_node(store, downstream)
    downstream.link = link
    node.poll(Snap(1, Sue=1), VIEWS)
    assert len(node.pending) == 1
    assert holds(downstream) == ({"Sue": 1} if link is Link.DEAF else {})
    downstream.link = Link.UP
    assert node.poll(Snap(1, Sue=1), VIEWS) == 1
    assert (holds(downstream), node.pending) == ({"Sue": 1}, {})


def test_an_equal_value_is_no_silence_while_something_is_pending(store: MemoryStore, downstream: Downstream) -> None:
    node = a_node(store, downstream)
    node.poll(Snap(1, Sue=1), VIEWS)
    downstream.link = Link.DEAF
    node.poll(Snap(2, Sue=2), VIEWS)
    assert holds(downstream) == {"Sue": 2}
    downstream.link = Link.UP
    node = a_node(store, downstream)  # it was stopped, and starts with its saved state
    assert node.poll(Snap(3, Sue=1), VIEWS) == 1
    assert holds(downstream) == {"Sue": 1}


def test_a_row_that_never_was_answered_and_is_gone_is_sent_as_gone(store: MemoryStore, downstream: Downstream) -> None:
    node = a_node(store, downstream)
    downstream.link = Link.DEAF
    node.poll(Snap(1, Sue=1), VIEWS)
    downstream.link = Link.UP
    assert a_node(store, downstream).poll(Snap(2), VIEWS) == 1
    assert holds(downstream) == {}


def test_what_arrives_late_loses_to_what_is_newer(store: MemoryStore, downstream: Downstream) -> None:
    node = a_node(store, downstream)
    downstream.link = Link.SLOW
    node.poll(Snap(1, Sue=1), VIEWS)
    downstream.link = Link.UP
    node.poll(Snap(2, Sue=2), VIEWS)
    assert len(downstream.late) == 1
    downstream.arrive(Random(0))
    assert holds(downstream) == {"Sue": 2}


def test_a_view_that_is_gone_is_sent_as_gone(store: MemoryStore, downstream: Downstream) -> None:
    node = a_node(store, downstream)
    node.poll(Snap(1, Sue=1), VIEWS)
    assert node.poll(Snap(2), []) == 1
    assert (downstream.views(), node.pending) == ({}, {})
