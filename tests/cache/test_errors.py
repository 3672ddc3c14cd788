import pickle

import pytest

from penstock.cache import errors
from penstock.cache.errors import (
    BatchRejected,
    Closed,
    DefinitionChanged,
    DefinitionError,
    ForkedStore,
    KeyKind,
    KeyTooLong,
    MissingExtra,
    PenstockError,
    ReadOnly,
    RecordError,
    StoreDamaged,
    StoreFormat,
    StoreFull,
    StoreInUse,
    StoreMissing,
    StoreReplaced,
    UnknownName,
    ValueKind,
)
from penstock.cache.messages import error_text
from penstock.views.answers.write_report import Rejection

REJECTIONS = tuple(Rejection("users", f"line {n}", "not JSON") for n in range(5))

# Each error, with the object that its message names and the next step.
EACH: list[tuple[PenstockError, list[str]]] = [
    (DefinitionError("write it otherwise"), ["write it otherwise"]),
    (UnknownName("usres", "table", "users"), ["table", "'usres'", "did you mean 'users'?"]),
    (UnknownName("zzz"), ["table or view", "'zzz'", "App.names()"]),
    (RecordError("ts is text"), ["ts is text", "put it again"]),
    (BatchRejected(20_000, REJECTIONS), ["20000 documents", "users, line 0: not JSON", "and 2 more", "put again"]),
    (BatchRejected(0, REJECTIONS[:1]), ["0 documents", "line 0", "strict=True"]),
    (StoreInUse("a/b", "process 7 since noon"), ["a/b", "process 7", "readonly=True"]),
    (StoreFormat("a/b", 9, 1), ["a/b", "format 9", "format 1", "open it with"]),
    (StoreDamaged("a/b, segments, 3"), ["a/b, segments, 3", "restore"]),
    (StoreFull("a/b", "no space left"), ["a/b", "no space left", "free some space"]),
    (StoreMissing("a/b"), ["a/b", "without readonly=True"]),
    (StoreReplaced("a/b"), ["data.mdb", "a/b", "open it again"]),
    (ReadOnly("a/b"), ["a/b", "without readonly=True"]),
    (Closed("the engine"), ["the engine", "`with`"]),
    (ForkedStore("a/b", 7), ["a/b", "process 7", "open it again"]),
    (MissingExtra("pyarrow", "arrow"), ["pyarrow", "pip install 'penstock[arrow]'"]),
    (DefinitionChanged("revenue", "its key was 'a'"), ["'revenue'", "its key was 'a'", "another name"]),
    (KeyKind({"a": 1}), ["{'a': 1} (dict)", "a key is null"]),
    (KeyKind("\ud800", "half a surrogate pair"), ["'\\ud800' (str)", "half a surrogate pair"]),
    (KeyTooLong(70_000), ["70000", "65536"]),
    (ValueKind({1}, "a.b"), ["{1} (set)", "'a.b'", "a document holds"]),
    (ValueKind({1}), ["{1} (set) can't"]),
]


@pytest.mark.parametrize(("error", "parts"), EACH, ids=lambda x: type(x).__name__ if isinstance(x, Exception) else "")
def test_an_error_names_the_thing_and_the_next_step(error: PenstockError, parts: list[str]) -> None:
    assert [part for part in parts if part not in str(error)] == []
    assert isinstance(error, PenstockError)


@pytest.mark.parametrize("error", [error for error, _ in EACH], ids=lambda e: type(e).__name__)
def test_an_error_survives_pickling(error: PenstockError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert (other.args, str(other), vars(other)) == (error.args, str(error), vars(error))


def test_a_huge_value_is_cut_short() -> None:
    assert len(str(ValueKind(["x" * 10_000] * 1000))) < 400
    assert len(str(KeyKind({n: n for n in range(10_000)}))) < 400


def test_a_huge_int_is_shown_by_its_size() -> None:
    for value in (10**5000, -(10**5000), [10**5000], {"a": (10**5000,)}):
        assert "<int of 16610 bits>" in str(ValueKind(value))
    assert str(KeyKind(1 << 20)).startswith("1048576 (int)")


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_the_text_of_a_users_error_is_one_line() -> None:
    assert error_text(KeyError("name")) == "KeyError: 'name'"
    assert error_text(Untold()) == "Untold: <its text raises RuntimeError>"
    assert error_text(ValueError("a\ud800b")) == "ValueError: a?b"
    assert len(error_text(ValueError("x" * 1_000_000))) < 2_000


def test_every_error_is_tested_and_exported() -> None:
    defined = {
        name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, PenstockError)
    }
    assert defined == set(errors.__all__)
    assert defined == {type(error).__name__ for error, _ in EACH} | {"PenstockError"}
