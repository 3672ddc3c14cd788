"""The laws of maps and reducers: a breach is named, with the documents that show it. Sound functions pass."""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.testing.laws.laws import Breach, Law
from penstock.testing.laws.view_laws import breach_of

DOCS = [{"id": i, "name": name, "v": i - 2, "w": [i]} for i, name in enumerate(("Sue", "Joe", "Bob", "Al", "Ann"), 1)]
PAIRS = [(doc["id"], doc) for doc in DOCS]


def of_map(function: Callable[[Any], Any]) -> Breach | None:
    users = ps.App("laws").table("users", key="id")
    return breach_of(users.view("view", reduce=ps.count())(function), PAIRS)


def of_reducer(reducer: Any, value: str = "v") -> Breach | None:
    users = ps.App("laws").table("users", key="id")
    return breach_of(users.view("view", key="name", value=value, reduce=reducer), PAIRS)


# -- maps


def test_chance_is_found_and_named() -> None:
    def chosen(doc: Any) -> Iterator[Any]:
        yield random.randrange(10**9)

    found = of_map(chosen)
    assert found is not None
    assert found.law is Law.RANDOM
    assert len(found.documents) == 1


def test_time_is_chance_too() -> None:
    ticks = iter(range(10**6))

    class Clock:
        @staticmethod
        def now() -> int:
            return next(ticks)

    def timed(doc: Any) -> Iterator[Any]:
        yield Clock.now()

    found = of_map(timed)
    assert found is not None
    assert found.law in (Law.RANDOM, Law.HIDDEN)


SEEN: set[str] = set()
NUMBER = itertools.count()


def first_letter_once(doc: Any) -> Iterator[Any]:
    if doc["name"][0] not in SEEN:
        SEEN.add(doc["name"][0])
        yield doc["name"][0]


def numbered(doc: Any) -> Iterator[Any]:
    yield next(NUMBER)


def through_a_helper(doc: Any) -> Iterator[Any]:
    yield from first_letter_once(doc)


def with_an_attribute(doc: Any) -> Iterator[Any]:
    yield from vars(with_an_attribute).get("last", ())
    vars(with_an_attribute)["last"] = [doc["name"]]


class Object:
    def __init__(self) -> None:
        self.before = "nobody"

    def __call__(self, doc: Any) -> list[Any]:
        before, self.before = self.before, doc["name"]
        return [before]


def test_what_a_closure_keeps() -> None:
    last = [""]

    def after(doc: Any) -> Iterator[Any]:
        yield last[0]
        last[0] = doc["name"]

    found = of_map(after)
    assert found is not None
    assert (found.law, "'last'" in found.why) == (Law.HIDDEN, True)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (first_letter_once, "SEEN"),
        (numbered, "NUMBER"),
        (through_a_helper, "SEEN"),
        (with_an_attribute, "last"),
        (Object(), "before"),
    ],
)
def test_hidden_state_is_found_and_named(function: Any, name: str) -> None:
    SEEN.clear()
    found = of_map(function)
    assert found is not None
    assert found.law is Law.HIDDEN
    assert f"it keeps {name!r} from one document to the next" in found.why
    assert 1 <= len(found.documents) <= 2


def test_what_is_kept_but_has_no_part_in_what_is_yielded_is_sound() -> None:
    calls = []
    memo: dict[str, str] = {}

    def counted(doc: Any) -> Iterator[Any]:
        calls.append(doc["id"])
        yield memo.setdefault(doc["name"], doc["name"][0])

    assert of_map(counted) is None


def test_the_order_of_a_set_means_nothing() -> None:
    def words(doc: Any) -> Iterator[Any]:
        yield from {doc["name"], "x", "y", str(doc["v"])}

    assert of_map(words) is None


def test_what_always_raises_is_held_and_breaks_no_law() -> None:
    def broken(doc: Any) -> Iterator[Any]:
        yield doc["no such field"]

    assert of_map(broken) is None


# -- reducers


class Sound:
    """An invertible reducer that is also a sound monoid."""

    zero: Any = 0

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def unmerge(self, a: Any, b: Any) -> Any:
        return a - b


class Subtracts(Sound):
    def merge(self, a: Any, b: Any) -> Any:
        return a - b

    def unmerge(self, a: Any, b: Any) -> Any:
        return a + b


class Halves(Sound):
    def merge(self, a: Any, b: Any) -> Any:
        return b if a == 0 else a if b == 0 else (a + b) / 2


class Forgets(Sound):
    def unmerge(self, a: Any, b: Any) -> Any:
        return a


class FromOne(Sound):
    zero = 1

    def lift(self, value: Any) -> Any:
        return 0


class Drifts(Sound):
    def lift(self, value: Any) -> Any:
        return value / 10


class Chance(Sound):
    def lift(self, value: Any) -> Any:
        return random.random()


class Appends(Sound):
    zero: Any = ()

    def merge(self, a: Any, b: Any) -> Any:
        a += b
        return sorted(a)

    def unmerge(self, a: Any, b: Any) -> Any:
        return [item for item in a if item not in b]


class Empties(Sound):
    zero: Any = ()

    def lift(self, value: Any) -> Any:
        return [value.pop()]

    def merge(self, a: Any, b: Any) -> Any:
        return sorted([*a, *b])


class Sorts(Sound):
    def result(self, total: Any) -> Any:
        total.sort()
        return total

    zero: Any = ()

    def lift(self, value: Any) -> Any:
        return [2, 1]

    def merge(self, a: Any, b: Any) -> Any:
        return [x + y for x, y in zip(a or [0, 0], b or [0, 0], strict=True)]

    def unmerge(self, a: Any, b: Any) -> Any:
        return [x - y for x, y in zip(a, b, strict=True)]


class Raises(Sound):
    def merge(self, a: Any, b: Any) -> Any:
        raise ValueError


@pytest.mark.parametrize("make", [ps.group, ps.monoid])
def test_what_keeps_all_laws_passes(make: Any) -> None:
    assert of_reducer(make(Sound())) is None


@pytest.mark.parametrize(
    ("user", "law", "value"),
    [
        (Subtracts(), Law.ZERO, "v"),
        (Halves(), Law.GROUPING, "v"),
        (Forgets(), Law.INVERSE, "v"),
        (FromOne(), Law.ZERO, "v"),
        (Chance(), Law.UNSTEADY, "v"),
        (Appends(), Law.IN_PLACE, "w"),
        (Empties(), Law.IN_PLACE, "w"),
        (Sorts(), Law.IN_PLACE, "v"),
    ],
)
def test_a_broken_law_is_found(user: Any, law: Law, value: str) -> None:
    found = of_reducer(ps.group(user), value)
    assert found is not None
    assert found.law is law, found
    assert found.documents


def test_rounding_is_said_to_be_what_it_is() -> None:
    found = of_reducer(ps.group(Drifts()))
    assert found is not None
    assert found.law in (Law.GROUPING, Law.INVERSE)


def test_what_raises_holds_a_group_and_breaks_no_law() -> None:
    assert of_reducer(ps.group(Raises())) is None


# -- functions


def total(values: list[Any], rereduce: bool) -> Any:
    return sum(value or 0 for value in values)


def number(values: list[Any], rereduce: bool) -> Any:
    return sum(values) if rereduce else len(values)


def by_keys(keys: Any, values: list[Any], rereduce: bool) -> Any:
    return max(values if rereduce else [key for _, key in keys])


def counts_results(values: list[Any], rereduce: bool) -> Any:
    return len(values)


def first_one(values: list[Any], rereduce: bool) -> Any:
    return values[0]


def pops(values: list[Any], rereduce: bool) -> Any:
    return max([values.pop() for _ in range(len(values))])


@pytest.mark.parametrize("function", [total, number, by_keys])
def test_functions_that_take_their_own_results_pass(function: Any) -> None:
    assert of_reducer(function) is None


@pytest.mark.parametrize(
    ("function", "law"), [(counts_results, Law.GROUPING), (first_one, Law.ORDER), (pops, Law.IN_PLACE)]
)
def test_functions_that_do_not_are_found(function: Any, law: Law) -> None:
    found = of_reducer(function)
    assert found is not None
    assert found.law is law, found


def test_a_breach_is_a_sentence_and_its_documents() -> None:
    found = of_reducer(ps.group(FromOne()))
    assert str(found) == (
        "a zero that is not neutral: its zero is 1, and merge(1, 0) gives 1\n"
        "    2: {'id': 2, 'name': 'Joe', 'v': 0, 'w': [2]}"
    )
