"""The order of seeds, the end of a search, and the file of seeds that failed."""

from pathlib import Path

import pytest

from penstock.cache import PenstockError
from penstock.testing.seeds.seed_search import SeedFile, Seeds, Totals, seconds_of


def test_seeds_that_failed_come_first(tmp_path: Path) -> None:
    remembered = SeedFile(str(tmp_path / "seeds"))
    assert remembered.seeds() == ()
    remembered.add(17, "shop: views: view 'a'\n  and more")
    remembered.add(4, "shop: lost")
    remembered.add(17, "again")
    assert remembered.seeds() == (17, 4)
    assert (tmp_path / "seeds").read_text().splitlines()[1:] == ["17 shop: views: view 'a' and more", "4 shop: lost"]
    assert list(Seeds(0, 3, None, remembered)) == [17, 4, 0, 1, 2]


def test_time_ends_it_between_two_seeds() -> None:
    now = iter([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0])
    seeds = Seeds(5, None, 2.0, None, lambda: next(now))
    assert list(seeds) == [5, 6]
    assert seeds.totals.seconds == 2.0


def test_totals_read_as_a_line() -> None:
    assert str(Totals(1200, 9000, 80_000, 700, 10.0)) == (
        "1,200 seeds in 10.0 s, 120 a second: 700 faults struck at 80,000 places in 9,000 steps"
    )


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("60s", 60), ("1.5m", 90), ("2h", 7200)])
def test_times_read_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1d", "soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(PenstockError, match="write 60s, 30m or 2h"):
        seconds_of(text)
