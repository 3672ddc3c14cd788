"""A campaign continues after the last one, and adds its counts to a file. Another command replays one seed."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import __main__ as command
from penstock.testing import campaign
from penstock.testing.campaign import Campaign
from tests.testing.planted import BUGS, pins, planted

COMMITTED = Path(__file__).with_name("campaign.json")


def bug() -> Any:
    (found,) = (b for b in BUGS if b.name == "a view of a view is not told of groups that go")
    return found


def test_it_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "campaign.json"
    for _ in range(2):
        assert campaign.main(["--budget", "60s", "--seeds", "3", "--totals", str(file)]) == 0
    kind = Campaign.read(str(file)).kinds["fused"]
    assert (kind.next, kind.totals.seeds, kind.failed) == (6, 6, [])
    assert json.loads(file.read_text())["kinds"]["fused"]["next"] == 6
    capsys.readouterr()
    assert command.main(["--totals", str(file)]) == 0
    assert capsys.readouterr().out.startswith("fused: 6 seeds in ")


def test_a_seed_that_fails_is_told_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "campaign.json"
    with planted(bug()):
        assert campaign.main(["--seeds", "3", "--totals", str(file)]) == 1
    failed = Campaign.read(str(file)).kinds["fused"].failed
    assert failed
    said = capsys.readouterr().out
    assert f"replay with: python -m penstock.testing --seed {failed[0]}" in said
    assert "what happened:" in said
    assert not list(tmp_path.glob("campaign.json.*"))


def test_one_seed_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seed", "0"]) == 0
    assert capsys.readouterr().out.startswith("1 seeds in ")
    remembered = tmp_path / "seeds"
    seed = str(pins()[bug().name].seed)
    with planted(bug()):
        assert command.main(["--first", seed, "--seeds", "1", "--remembered", str(remembered)]) == 1
        assert f"seed {seed} fails in " in capsys.readouterr().out
        assert command.main(["--first", "1000000", "--seeds", "1", "--remembered", str(remembered)]) == 1, (
            "it comes first"
        )
        assert command.main(["--seed", seed]) == 1


def test_the_named_places_are_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--named"]) == 0
    assert capsys.readouterr().out == "45 places and faults, 0 wrong\n"


def test_what_was_gone_through_is_kept_with_the_code() -> None:
    own = Campaign.read(str(COMMITTED)).kinds["fused"]
    assert own.next == own.totals.seeds
    assert own.failed == []
