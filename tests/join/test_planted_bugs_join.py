"""Bugs planted in the rows of a join: seeded histories must find each. Without one they find none.

They are those of the trials behind the design of joins.
"""

from __future__ import annotations

import pytest

from penstock.join import How
from tests.harness.planting import Bug
from tests.join.join_histories import TIES, history

SEEDS = range(12)
FOUND_BY = {  # the seeds that find rare bugs
    "1 does not match 1.0": 32,
    "rows stay when the limit holds their condition value": 4,
}
_SIDES = "a, b = (side.plus if plus else side.minus for side in (self._left, self._right))"
_CHANGED = "yield from self._product(plus, a, b)\n"
_COUNTS = "for change, over in zip((other.less, other.more), self._over, strict=True)"

BUGS = [
    Bug(
        "both sides are joined with the new state of the other",
        "join.joined_rows:JoinChange._pairs",
        _CHANGED,
        f"{_CHANGED}        yield from self._product(plus, a, b) if plus else ()\n",
    ),
    Bug(
        "both sides are joined with the old state of the other",
        "join.joined_rows:JoinChange._pairs",
        _CHANGED,
        "yield from () if plus else self._product(plus, a, b)\n",
    ),
    Bug(
        "null matches null",
        "join.conditions:Conditions.of",
        "null = every.null()",
        "null = None",
    ),
    Bug(
        "a composite condition matches by one part",
        "join.conditions:_keys_of",
        "groups.whole(code) for code in range(start, start + len(tokens))",
        "own[:4] if own[:1] == b'\\x07' else own for own in map(groups.whole, range(start, start + len(tokens)))",
    ),
    Bug("1 does not match 1.0", "mapreduce.columns.group_codes:Groups.code", "[int(value)]", "[f'{value}']"),
    Bug(
        "a changed condition value leaves the old row",
        "join.joined_rows:JoinChange._changed",
        _SIDES,
        f"{_SIDES}\n    new = {{key for _, key, _ in self._left.plus.entries.listed()}}\n"
        "    if not plus: a = a.take(np.array([key not in new for _, key, _ in a.entries.listed()], bool))",
    ),
    Bug(
        "a row is retracted with the new projection",
        "join.joined_rows:JoinChange._changed",
        _SIDES,
        f"{_SIDES}\n    new = self._left.plus.entries\n"
        "    if not plus and len(a) == len(new): a = CodedEntries(a.code, new)",
    ),
    Bug(
        "a row without a match stays when a match comes",
        "join.joined_rows:JoinChange._alone",
        _COUNTS,
        _COUNTS.replace("other.more", "np.minimum(other.less, other.more)"),
    ),
    Bug(
        "no row without a match returns when the last match goes",
        "join.joined_rows:JoinChange._alone",
        _COUNTS,
        _COUNTS.replace("other.more", "np.maximum(other.less, other.more)"),
    ),
    Bug(
        "an update counts as one more match",
        "join.joined_rows:JoinChange._alone",
        _COUNTS,
        _COUNTS.replace("other.more", "other.less + other.more"),
    ),
    Bug(
        "only changed documents count as matches",
        "join.joined_rows:JoinChange._alone",
        "kept = other.kept.counts()",
        "kept = 0 * other.kept.counts()",
    ),
    Bug(
        "a semi join has a row for each match",
        "join.joined_rows:JoinChange.rows",
        "if self._how in _PAIRS:",
        "if self._how in {*_PAIRS, How.SEMI}:",
    ),
    Bug(
        "a document that is on both sides does not meet itself",
        "join.joined_rows:JoinChange._product",
        "for i, j in product(a, b, self._n, BLOCK):",
        "for i, j in product(a, b, self._n, BLOCK):\n"
        "        own = a.entries.at[i] != b.entries.at[j]\n"
        "        i, j = i[own], j[own]\n"
        "        if not i.size: continue",
    ),
    Bug(
        "a block loses its first entry",
        "join.joined_rows:_KeptCodes.blocks",
        "first.append(block)",
        "first.append(block.take(np.arange(1 if first else 0, len(block))))",
    ),
    Bug(
        "changed entries repeat in each block",
        "join.joined_rows:JoinChange._pairs",
        "yield from self._product(plus, a, kept)",
        "yield from self._product(plus, a, kept)\n            yield from self._product(plus, a, states[plus][2])",
    ),
    Bug(
        "rows stay when the limit holds their condition value",
        "join.joined_rows:JoinChange._pairs",
        "if moved.any():",
        "if False:",
    ),
    Bug(
        "rows without a match stay when the limit holds their condition value",
        "join.joined_rows:JoinChange._alone",
        "== matched) & ~over, null)",
        "== matched), null)",
    ),
    Bug(
        "a hold by the limit depends on the state before",
        "join.joined_rows:JoinChange._apply",
        "above_limit(after, limit)",
        "above_limit(before, limit)",
    ),
    Bug(
        "entries that do not change are taken as changed",
        "join.sorted_runs:changed_entries",
        "stays[first[same]] = stays[second[same]] = False",
        "stays[first] = stays[second] = False",
    ),
    Bug(
        "positions decide which entries are equal",
        "join.side_entries:same_columns",
        "a.lanes[i, VALUE] == b.lanes[j, VALUE]",
        "np.ones(i.size, bool)",
        *TIES,
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    monkeypatch.setattr("penstock.join.joined_rows.BLOCK", 3)
    seeds = [FOUND_BY[bug.name]] if bug.name in FOUND_BY else SEEDS
    assert any(_fault(seed, how) for seed in seeds for how in How)


def _fault(seed: int, how: How) -> bool:
    try:
        return history(seed, how) is not None
    except (AssertionError, IndexError, ValueError, OverflowError):
        return True
