"""Early sets: their changes show at once, are not stored twice, and are undone if the batch is not saved."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import encode_key, open_lmdb
from penstock.engine import Member, PartitionedStore, repartition
from penstock.partitions.member import MOST_EARLY
from penstock.recovery import BEFORE, EarlySet, OldEpoch, unconfirmed_batches
from penstock.views import DeliveryMode, ProductionName
from tests.harness.planting import Bug
from tests.testing.planted import planted


def shop(production: ProductionName = "weak", chained: bool = True) -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("names", key="name", reduce={"n": ps.count(), "most": ps.max("v")}, production=production)
    if chained:
        names.view("sizes", key="value.n", reduce=ps.count())
    return app


def members(engine: ps.Engine) -> list[Member]:
    assert isinstance(engine.store, PartitionedStore)
    return engine.store.handles  # type: ignore[return-value]


def crossing(engine: ps.Engine, n: int = 40) -> tuple[list[dict[str, Any]], int]:
    """Return documents of the first partition whose groups the second one owns, and their number."""
    ranges = engine.store.ranges  # type: ignore[attr-defined]
    keys = [i for i in range(10 * n) if ranges.of(encode_key(i)) == 0][:n]
    name = next(name for name in map(str, range(100)) if ranges.of(encode_key(name)) == 1)
    return [{"id": key, "name": name, "v": key, "ts": 1} for key in keys], len(keys)


class Cut(Exception):
    """The end of a partition that has sent early sets."""


@contextmanager
def cut_off(member: Member) -> Iterator[list[EarlySet]]:
    """End a partition after it sent early sets, before it saves the batch."""
    tell, early_sets = member._exchange.tell, list[EarlySet]()

    def once(early: Mapping[int, EarlySet]) -> Collection[int]:
        reached = tell(early)
        early_sets.extend(one for one in early.values() if one.parts)
        if early_sets:
            raise Cut
        return reached

    member.sends_early(once)
    yield early_sets
    member.sends_early(tell)


def undo_batches(member: Member) -> dict[int, int]:
    with member.core.store.read() as reader:
        return unconfirmed_batches(reader)


@pytest.mark.parametrize("production", ["weak", "auto"])
def test_what_is_there_already_is_not_saved(production: ProductionName) -> None:
    with ps.open(shop(production), None, partitions=2) as engine:
        docs, n = crossing(engine)
        engine.put_many("users", docs)
        first, second = members(engine)
        assert first.core.state.sent == {}, "nothing was stored to be sent"
        assert undo_batches(second) == {}, "it is known to be in"
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]] == {"n": n, "most": docs[-1]["v"]}
        engine.settle()
        assert [undo_batches(member) for member in members(engine)] == [{}, {}]


def test_a_save_wakes_the_couriers_which_have_news_then() -> None:
    with ps.open(shop(), None, partitions=2) as engine:
        docs, _ = crossing(engine, 1)
        first, heard = members(engine)[0], list[bool]()
        first._exchange.wake = lambda: heard.append(first.core.state.batch > 0 and first.news(1) is not None)
        engine.put_many("users", docs)
        assert any(heard), "a receiver hears of the save without a next batch"


def test_a_large_batch_is_saved_first() -> None:
    with ps.open(shop(), None, partitions=2) as engine:
        docs, n = crossing(engine, MOST_EARLY + 1)
        assert n > MOST_EARLY
        engine.put_many("users", docs)
        assert members(engine)[0].core.state.sent == {1: 1}
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]]["n"] == n


def test_what_was_told_of_a_batch_that_is_not_in_is_taken_back(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as engine:
        docs, n = crossing(engine)
        engine.put_many("users", docs[: n // 2])
        engine.settle()
        before = engine.digest()
        with cut_off(members(engine)[0]), pytest.raises(Cut):
            engine.put_many("users", [{**doc, "v": doc["v"] + 1000, "ts": 2} for doc in docs])
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]]["most"] > 1000, "it shows, for now"
        with ps.open(shop(), tmp_path / "s", readonly=True) as reading:
            reading.store.reading.looks = 2  # type: ignore[attr-defined]
            with pytest.raises(ps.PenstockError, match="have not taken yet"):
                reading.digest()
            assert engine.digest() == before == reading.digest(), "a digest is of what is saved"
        assert undo_batches(members(engine)[1]) == {}
        engine.put_many("users", docs)
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]] == {"n": n, "most": docs[-1]["v"]}


def told_and_taken_back() -> None:
    """Undo an early set in which some contributions stay unchanged, in a tree and in an index."""
    app = shop()
    letters = app.lookup("users")
    assert isinstance(letters, ps.Table)

    @letters.view(reduce=None, production="weak")
    def listed(doc: Any) -> Any:
        for i in range(doc["v"] % 3 + 1):
            yield doc["name"], doc["v"] * (i % 2)

    with ps.open(app, None, partitions=2) as engine:
        docs, _ = crossing(engine, 6)
        engine.put_many("users", docs)
        before = engine.digest()
        others = [{**doc, "v": doc["v"] + i % 2, "ts": 2} for i, doc in enumerate(docs)]
        with cut_off(members(engine)[0]), pytest.raises(Cut):
            engine.put_many("users", others)
        engine.settle()
        assert engine.digest() == before
        engine.put_many("users", others)
        with ps.open(app, None) as whole, engine.snapshot() as snap:
            whole.put_many("users", others)
            with whole.snapshot() as other:
                for view in app.views():
                    assert dict(snap.view(view.name).items()) == dict(other.view(view.name).items())


BUGS = [
    Bug(
        "of what was there what stays is not kept",
        "mapreduce.contribution_sets:set_deltas",
        "return SetDeltas(plus, minus, before,",
        "return SetDeltas(plus, minus, minus,",
    ),
    Bug(
        "of a document's rows in an index the first is looked for",
        "mapreduce.plain_index:IndexReduce.of_sources",
        "[own for own, _, _ in present], rank + 1",
        "[], rank + 1",
    ),
]


def told_late() -> None:
    """Deliver the early set of a batch after the next batch; both were saved, because no answer came."""
    app = shop("auto", chained=False)  # contributions to a view on a view would wait for the news
    with ps.open(app, None, partitions=2) as engine:
        docs, _ = crossing(engine, 1)
        first, second = members(engine)
        tell, late = first._exchange.tell, list[EarlySet]()

        def lost(early: Mapping[int, EarlySet]) -> Collection[int]:
            late.extend(one for one in early.values() if one.parts)
            return () if late else tell(early)

        for ts in (1, 2):
            first.sends_early(lost)
            engine.put("users", {**docs[0], "v": ts, "ts": ts})
        assert [one.batch for one in late] == [1, 2]
        second.hear(late[0])
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]] == {"n": 1, "most": 2}


def test_contributions_that_stay_are_there_afterwards() -> None:
    told_and_taken_back()


def test_what_was_saved_is_newer_than_what_was_told_of_it() -> None:
    told_late()
    bug = Bug("", "partitions.exchange.exchange:_take", "_guarded(state, sender, (epoch, batch, 1))", "state")
    other = Bug(
        "", "partitions.member:Member.news", "batch = exchange.heard.get(other)", "batch = None"
    )  # nor is it said
    with planted(bug), planted(other), pytest.raises(AssertionError):
        told_late()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with planted(bug), pytest.raises(AssertionError):
        told_and_taken_back()


def test_an_opening_takes_it_back(tmp_path: Path) -> None:
    engine = ps.open(shop(), tmp_path / "s", partitions=2, processes=False)
    docs, n = crossing(engine)
    engine.put_many("users", docs[:-1])
    engine.settle()
    before = engine.digest()
    with cut_off(members(engine)[0]), pytest.raises(Cut):
        engine.put("users", docs[-1])
    members(engine)[0]._exchange.heard.clear()  # as if all had ended here
    members(engine)[0]._exchange.unheard.clear()
    engine.close()
    with pytest.raises(ps.PenstockError, match="told of something that partition 0 does not have; open"):
        repartition(tmp_path / "s", 1)
    with ps.open(shop("strong" if n % 2 else "auto"), tmp_path / "s", processes=False) as again:
        again.settle()
        assert again.digest() == before
    assert repartition(tmp_path / "s", 1).after == 1


def not_reached(path: Path) -> None:
    """End a partition after its early set and before the save, then again before it reached the other partition."""
    engine = ps.open(shop("auto"), path, partitions=2, processes=False)
    docs, _ = crossing(engine)
    engine.put_many("users", docs[:6])
    engine.settle()
    first = members(engine)[0]
    with cut_off(first), pytest.raises(Cut):
        engine.put("users", {**docs[0], "v": 1000, "ts": 2})
    first._exchange.heard.clear()  # as if all had ended here
    first._exchange.unheard.clear()
    engine.close()
    image = path.with_name("image")
    with mock.patch("penstock.engine.partitioned_opening.delivered_productions"):  # nothing arrives
        engine = ps.open(shop("auto"), path, processes=False)
        first = members(engine)[0]
        tell = first._exchange.tell
        first.sends_early(lambda early: ())
        for doc in docs[6:9]:
            engine.put("users", doc)
        assert first.core.state.unheard == {1: 1}
        shutil.copytree(path, image, ignore=shutil.ignore_patterns("owner*", "lock.mdb", "socket"))
        first.sends_early(tell)
    with engine, ps.open(shop("auto"), image, processes=False) as again, ps.open(shop("auto"), None) as whole:
        whole.put_many("users", docs[:9])
        assert again.digest() == whole.digest()
        engine.put("users", docs[9])  # the other partition hears of this batch first
        assert members(engine)[0].core.state.unheard == {}
        whole.put("users", docs[9])
        assert engine.digest() == whole.digest()


def test_a_partition_that_was_not_reached_takes_back_what_was_never_saved(tmp_path: Path) -> None:
    not_reached(tmp_path / "s")


UNREACHED = [
    Bug(
        "forgotten at the opening",
        "partitions.exchange.exchange:PartitionExchange.begin",
        "state.unheard.get(other, state.batch)",
        "state.batch",
    ),
    Bug(
        "forgotten by a batch",
        "partitions.exchange.exchange:PartitionExchange.save",
        "if self.batch or other in state.unheard",
        "if False",
    ),
]


@pytest.mark.parametrize("bug", UNREACHED, ids=lambda bug: bug.name)
def test_a_bug_in_what_others_have_not_heard_is_found(bug: Bug, tmp_path: Path) -> None:
    with planted(bug), pytest.raises(AssertionError):
        not_reached(tmp_path / "s")


def test_a_batch_that_failed_is_taken_back_before_the_next_one_is_in() -> None:
    with ps.open(shop(), None, partitions=2) as engine:
        docs, _ = crossing(engine)
        first = members(engine)[0]
        with cut_off(first), pytest.raises(Cut):
            engine.put("users", docs[0])
        tell = first._exchange.tell
        first.sends_early(lambda early: ())
        engine.put("users", docs[1])
        assert first.core.state.sent == {1: 1}, "one that can't be reached is owed it"
        first.sends_early(tell)
        engine.put("users", docs[2])
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]] == {"n": 2, "most": docs[2]["v"]}


def test_what_is_told_again_or_late_changes_nothing() -> None:
    with ps.open(shop(), None, partitions=2) as engine:
        docs, _ = crossing(engine)
        first, second = members(engine)
        early_sets: list[EarlySet] = []
        tell = first._exchange.tell

        def heard(early: Mapping[int, EarlySet]) -> Collection[int]:
            early_sets.extend(early.values())
            return tell(early)

        first.sends_early(heard)
        for doc in docs:
            engine.put("users", doc)
        digest, position = engine.digest(), second.core.state.position
        for one in early_sets:
            second.hear(one)
        assert (engine.digest(), second.core.state.position) == (digest, position)
        with pytest.raises(OldEpoch, match="partition 0 was heard of in its epoch 1"):
            second.hear(EarlySet(0, 0, 99, 98, early_sets[-1].parts))


def test_what_nobody_has_is_saved() -> None:
    with ps.open(shop(DeliveryMode.AUTO.value), None, partitions=2) as engine:
        docs, n = crossing(engine)
        first, _ = members(engine)
        tell: Callable[[Mapping[int, EarlySet]], Collection[int]] = first._exchange.tell
        first.sends_early(lambda early: () if any(one.parts for one in early.values()) else tell(early))
        engine.put_many("users", docs)
        assert first.core.state.sent == {1: 1}
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]]["n"] == n


def test_each_seat_of_a_store_opens_where_it_was(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2) as engine:
        docs, n = crossing(engine)
        for doc in docs:
            engine.put("users", doc)
        engine.settle()
        with engine.snapshot() as snap:
            assert snap.view("names")[docs[0]["name"]]["n"] == n
            folders = [part["folder"] for part in engine.status()["partitions"]]
    for folder in folders:
        store = open_lmdb(tmp_path / "s" / folder)
        with store.read() as reader:
            assert reader.count(BEFORE) == reader.count("out") == 0
        store.close()
