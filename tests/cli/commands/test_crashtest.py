"""`penstock crashtest`: verdicts, exit codes, documents, stored seeds, and wrong use."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import USERS, Run
from tests.testing.planted import BUGS, planted

MARKS = [{"shop": s, "number": n, "mark": m} for s, n, m in (("a", 1, 5), ("a", 2, 3), ("b", 1, 9))]
GIVEN = ("--docs", "users=users.jsonl", "--docs", "marks=marks.jsonl")


@pytest.fixture
def documents(shop: Path) -> Path:
    """Return the folder with documents for both tables."""
    (shop / "users.jsonl").write_text("\n".join(USERS))
    (shop / "marks.jsonl").write_text("\n".join(map(json.dumps, MARKS)))
    return shop


def test_a_sound_app(run: Run, documents: Path) -> None:
    said = run("crashtest", "--seeds", "4", *GIVEN).stdout.splitlines()
    assert said[:2] == ["namecount  ok", "ages       ok"]
    assert said[-1].startswith("4 seeds in ")
    assert not (documents / "crashtest.seeds").exists()


def test_a_view_that_is_wrong_is_an_answer_and_its_seed_is_kept(run: Run, documents: Path) -> None:
    (bug,) = (b for b in BUGS if b.name == "a view of a view is not told of groups that go")
    with planted(bug):
        said = run("crashtest", "--seeds", "60", *GIVEN, code=1).stdout
    again = said.splitlines()[-1].removeprefix("replay with: penstock ")
    assert again.startswith("crashtest --docs users=users.jsonl --docs marks=marks.jsonl --seed ")
    assert "by_length  WRONG  views: view 'by_length'" in said
    kept = (documents / "crashtest.seeds").read_text().splitlines()
    assert kept[1].startswith(f"{again.rsplit(maxsplit=1)[-1]} shop: views: view 'by_length'")
    with planted(bug):
        run(*again.split(), code=1)
    run(*again.split())


def test_documents_of_a_function_and_of_a_strategy(run: Run, documents: Path) -> None:
    (documents / "making.py").write_text(
        "from hypothesis import strategies as st\n"
        "user = st.fixed_dictionaries({'id': st.integers(0, 5), 'ts': st.integers(0, 9), 'name': st.just('Sue')})\n"
        "def mark(choose):\n"
        "    return {'shop': 'a', 'number': choose.randrange(3), 'mark': 1}\n"
    )
    run("crashtest", "--seeds", "2", "--docs", "users=making:user", "--docs", "marks=making:mark")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ((), "table 'users' has no sample=, and what the function of view 'initials' reads can't be seen"),
        (("--docs", "users"), "--docs 'users' names no table; write --docs TABLE=FILE or TABLE=MODULE:NAME"),
        (("--docs", "user=users.jsonl"), "there is no table named 'user'; did you mean 'users'?"),
        (("--docs", "users=nowhere:user"), "--docs can't find nowhere:user"),
        (("--docs", "users=json:user"), "--docs can't find json:user"),
        (("--docs", "users=missing.jsonl"), "missing.jsonl"),
        (("--budget", "soon"), "--budget: 'soon' is no length of time; write 60s, 30m or 2h"),
        (("--seeds", "0"), "seeds"),
    ],
)
def test_what_is_used_wrongly_is_one_line(run: Run, documents: Path, args: tuple[str, ...], line: str) -> None:
    result = run("crashtest", *args, code=None)
    assert result.exit_code in (2, 3)
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1
