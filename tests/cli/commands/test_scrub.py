"""Scrubs of `penstock run`, and their results in `penstock status`."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.core.upkeep.scrub_result import read_result
from tests.cli.conftest import Run
from tests.cli.loading import STORE
from tests.cli.running_process import has_users, running, until, user
from tests.core.upkeep.test_scrub import turn
from tests.waiting import PATIENCE

OFTEN = ["--scrub", "0.000003", "--scrub-rate", "1000"]


def scrubbed() -> bool:
    return read_result(STORE) is not None


def damaged() -> bool:
    result = read_result(STORE)
    return result is not None and bool(result.damaged)


def test_a_batch_that_would_build_on_damage_ends_a_run(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text("".join(user(i) for i in range(30)))
    with running("users=file:a.jsonl?follow=1", options=OFTEN) as child:
        until(has_users(30), child)
        until(scrubbed, child)
        turn(shop / STORE, "log:")
        until(damaged, child)
        with open("a.jsonl", "a") as file:
            file.write(user(31))
        _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode not in (0, -6, -11)
    said = "damaged row: table 'users', rows were lost or added; restore the store from a copy"
    assert err.count(f"a scrub of {STORE} found damage: {said}") == 1
    assert err.splitlines()[-1].startswith(f"penstock: {said}")
    assert "Traceback" not in err
    page = run("status", "--format", "table").stdout
    assert f" s, 1 damaged\n          {said}" in page
    assert "damaged row: " in run("put", "users", user(32), code=None).stderr


def test_work_goes_on_beside_damage_of_a_view_and_a_check_repairs_it(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text("".join(user(i, f"name{i % 9}") for i in range(30)))
    with running("users=file:a.jsonl?follow=1", options=OFTEN) as child:
        until(has_users(30), child)
        turn(shop / STORE, "view:")
        until(damaged, child)
        with open("a.jsonl", "a") as file:
            file.write(user(31))
        until(has_users(31), child)
        run("check", "--fix")
        until(lambda: not damaged(), child)
        child.terminate()
        _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0
    assert err.count("found damage") == 1
    assert "check --fix" in err


def test_the_page_names_a_store_that_was_never_scrubbed(filled: Path, run: Run) -> None:
    assert "\nscrub     never; `penstock check` walks all pages" in run("status", "--format", "table").stdout
    assert json.loads(run("status").stdout)["scrub"]["ended"] is None
    run("check")
    assert "\nscrub     20" in run("status", "--format", "table").stdout
    found = json.loads(run("status").stdout)["scrub"]
    assert (found["damaged"], found["uncounted"]) == ([], 0)
    assert found["ended"] is not None


def test_no_scrub_where_none_is_wanted(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text(user(1))
    run("run", "--from", "users=a.jsonl", "--scrub", "0")
    assert not (shop / STORE / "scrub").exists()
    assert "--scrub-rate" in run("run", "--from", "users=a.jsonl", "--scrub-rate", "0", code=2).stderr
