"""The apps of examples/unsound: each is caught, with its reason; the sound one passes."""

import importlib
from typing import Any

import pytest

from penstock.testing import Law, crashtest

CAUGHT = {
    "random_map": Law.RANDOM,
    "hidden_state": Law.HIDDEN,
    "not_associative": Law.GROUPING,
    "not_commutative": Law.ORDER,
    "not_inverse": Law.INVERSE,
    "zero_not_neutral": Law.ZERO,
    "changes_in_place": Law.IN_PLACE,
    "function_not_associative": Law.GROUPING,
}


def app_of(name: str) -> Any:
    return importlib.import_module(f"examples.unsound.{name}").app


@pytest.mark.parametrize("name", CAUGHT)
def test_it_is_caught(name: str) -> None:
    report = crashtest(app_of(name), seeds=1)
    (verdict,) = report.verdicts
    assert not report.ok
    assert verdict.breach is not None
    assert verdict.breach.law is CAUGHT[name], verdict
    assert 1 <= len(verdict.breach.documents) <= 3
    assert CAUGHT[name].value in str(report)


@pytest.mark.parametrize("name", ["shop", "leaderboard", "pageviews"])
def test_a_sound_app_passes_with_its_sample(name: str) -> None:
    report = crashtest(importlib.import_module(f"examples.{name}.app").app, seeds=10, folder=f"examples/{name}")
    assert report.ok, str(report)


def test_documents_are_shown_with_their_keys() -> None:
    (verdict,) = crashtest(app_of("hidden_state"), seeds=1, folder="examples/unsound").verdicts
    assert verdict.breach is not None
    assert all(key == doc["id"] for key, doc in verdict.breach.documents)


def test_the_order_of_a_set_passes() -> None:
    assert crashtest(app_of("set_order"), seeds=15).ok
