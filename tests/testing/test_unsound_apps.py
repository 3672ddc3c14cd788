"""The apps of examples/unsound: each is caught with a reason, and the sound app passes."""

import importlib
import threading
from typing import Any

import pytest

import penstock as ps
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


@pytest.mark.parametrize("name", ["shop", "leaderboard", "pageviews", "wholesale"])
def test_a_sound_app_passes_with_its_sample(name: str) -> None:
    report = crashtest(importlib.import_module(f"examples.{name}.app").app, seeds=10, folder=f"examples/{name}")
    assert report.ok, str(report)


def test_documents_are_shown_with_their_keys() -> None:
    (verdict,) = crashtest(app_of("hidden_state"), seeds=1, folder="examples/unsound").verdicts
    assert verdict.breach is not None
    assert all(key == doc["id"] for key, doc in verdict.breach.documents)


def test_the_order_of_a_set_passes() -> None:
    assert crashtest(app_of("set_order"), seeds=15).ok


def reports_of(name: str) -> dict[str, Any]:
    """Return the verdicts on the views of an app, by name."""
    return {verdict.name: verdict for verdict in crashtest(app_of(name), seeds=1).verdicts}


def test_state_by_the_key_of_a_document_is_caught_wherever_it_is_kept() -> None:
    verdicts = reports_of("keyed_state")
    assert len(verdicts) == 9
    for verdict in verdicts.values():
        assert verdict.breach is not None, verdict.name
        assert verdict.breach.law is Law.HIDDEN, verdict
        assert 1 <= len(verdict.breach.documents) <= 2, verdict


def test_a_result_that_depends_on_the_process_is_caught() -> None:
    verdicts = reports_of("process_state")
    assert len(verdicts) == 6
    for verdict in verdicts.values():
        assert verdict.breach is not None, verdict.name
        assert verdict.breach.law is Law.PROCESS, verdict
        assert "in another process" in str(verdict)


def test_an_app_that_no_process_can_be_given_is_said_to_be_untried() -> None:
    lock = threading.Lock()
    app = ps.App("locked")

    @app.table("users", key="id").view(reduce=ps.count())
    def names(user: Any) -> Any:
        with lock:
            name = user["name"]
        yield name

    report = crashtest(app, docs=[{"id": 1, "name": "Sue"}], seeds=1)
    assert report.ok
    assert "not tried in a second process: the app can't be sent" in str(report)
