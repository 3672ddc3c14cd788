"""The state machine for users of Hypothesis runs, finds a planted bug, and names a missing package."""

import builtins
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

import penstock as ps
from penstock.testing import crash_machine
from tests.testing.planted import BUGS, planted

USERS = st.fixed_dictionaries(
    {"id": st.integers(0, 3), "name": st.sampled_from(["Sue", "Joe"]), "ts": st.integers(0, 9)}
)


def an_app() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("namecount", key="name", reduce=ps.count())
    names.view("lengths", reduce=ps.sum())(lambda row: [(len(row.key), row.value)])
    return app


TestShop = crash_machine(an_app(), docs=USERS).TestCase
TestShop.settings = settings(max_examples=10, stateful_step_count=12)


def test_without_a_strategy_documents_are_like_the_sample() -> None:
    app = ps.App("shop")
    users = app.table("users", key="id")
    users.view("namecount", key="name", reduce=ps.count())
    machine = crash_machine(app)
    run_state_machine_as_test(machine, settings=settings(max_examples=3, stateful_step_count=8, database=None))


def test_a_planted_bug_is_found() -> None:
    quick = settings(max_examples=60, stateful_step_count=12, database=None, phases=[Phase.generate])
    (bug,) = (b for b in BUGS if b.name == "a view of a view is not told of groups that go")
    with planted(bug), pytest.raises(AssertionError, match="views: view 'lengths'"):
        run_state_machine_as_test(crash_machine(an_app(), docs=USERS), settings=quick)


def test_without_hypothesis_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == "hypothesis":
            raise ModuleNotFoundError(name, name=name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ps.MissingExtra, match=r"pip install 'penstock\[testing\]'"):
        crash_machine(an_app())
