"""Bugs planted in the engine's half of joins: seeded histories must find each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.testing.inputs.joined_trial import joined
from penstock.testing.inputs.trial_apps import trial_of
from penstock.testing.seeds.seed_search import Totals, attempt
from tests.harness.planting import Bug
from tests.join.engine_histories import chained, history, layered, nested

SEEDS = (0, 1, 5, 13)  # each bug is found by one of them

BUGS = [
    Bug(
        "a join runs once per table, not once per transaction",
        "core.commit:Core._commit",
        "out[name] = self.tables[name].process(writer, batch, writes)",
        "out[name] = self.tables[name].process(writer, batch, writes); self.joins.run(writer, writes)",
    ),
    Bug(
        "a row is retracted by the new projection",
        "join.side_node:SideNode.change",
        "self.entries(own.minus)",
        "self.entries(own.plus if own.plus[0].n == own.minus[0].n else own.minus)",
    ),
    Bug(
        "a changed condition value leaves the old row",
        "join.side_node:SideNode.change",
        "minus, plus = changed_entries(self.entries(own.minus), self.entries(own.plus))",
        "minus, plus = changed_entries(self.entries(own.minus), self.entries(own.plus))\n"
        "        keys = {key for _, key, _ in plus.listed()}\n"
        "        minus = minus.take(np.array([key not in keys for _, key, _ in minus.listed()], bool))",
    ),
    Bug(
        "a changed document counts as kept",
        "join.side_node:SideNode._kept",
        "self.index.kept(reader, changed)",
        "self.index.kept(reader, changed.slice(0, 0))",
    ),
    Bug(
        "a look-up of a key side sees a changed document as kept",
        "join.side_node:KeySideKept._unchanged",
        "if not len(self._entries):",
        "if True:",
    ),
    Bug(
        "a look-up of a key side finds documents that its filter leaves out",
        "gateway.sides.key_side:KeySide.find",
        "self._where is not None",
        "False",
    ),
    Bug(
        "a look-up of a key side finds deleted documents",
        "gateway.sides.key_side:KeySide.find",
        "known.state[slots] & PRESENT",
        "known.state[slots] & 8",
    ),
    Bug(
        "a scan of a join looks no document of a key side up",
        "join.side_node:KeySideKept.blocks",
        "found, columns = self._found(",
        "found, columns = (lambda keys: (index[:0], []))(",
    ),
    Bug(
        "entries are not stored",
        "join.side_node:SideNode.stage",
        "change.plus, writes",
        "change.plus.slice(0, 1), writes",
    ),
    Bug("null matches null", "join.side_node:_SideValues._is_null", "return value is None", "return False"),
    Bug(
        "a composite condition with a null part matches",
        "join.side_node:_SideValues._is_null",
        "any(part is None for part in value)",
        "all(part is None for part in value)",
    ),
    Bug(
        "the condition of the join is not applied to rows that go",
        "join.joined_columns:selected",
        "if where is None:",
        "if where is None or not rows.plus:",
    ),
    Bug(
        "the filter of a side is not applied",
        "views.sides.side_projection:_side_view",
        "None, side.where)",
        "None, None)",
    ),
    Bug(
        "a filter of a side removes outer rows",
        "join.join_node:JoinNode._rows",
        "selected(self._projected, rows, ",
        "selected(self._projected, rows if not any(own.where for own in self.join.sides) else "
        "JoinedRows(rows.plus, rows.left, rows.i[rows.j >= 0], rows.right, rows.j[rows.j >= 0]), ",
    ),
    Bug(
        "a null condition value has no outer row",
        "join.side_node:SideNode.entries",
        "not self.side.unmatched",
        "True",
    ),
    Bug(
        "a scan of a join has no row of a null condition value",
        "join.stored_join:StoredSide.nulls",
        "if self.view.unmatched",
        "if False",
    ),
    Bug(
        "a scan of a full join lacks the rows of its second side alone",
        "join.stored_join:StoredJoin.rows",
        "if how is How.FULL else ()",
        "if False else ()",
    ),
    Bug(
        "a missing side is an empty document",
        "join.joined_columns:_side_documents",
        "[None] * int(index.size)",
        "[{} for _ in index]",
    ),
    Bug(
        "functions of two views share a row",
        "mapreduce.parent_rows:_for_function",
        "unpack(canonical(row))",
        "row",
    ),
    Bug(
        "a value above the limit keeps its rows",
        "join.join_node:JoinNode.run",
        "self.join.limit",
        "None",
    ),
    Bug(
        "a released value stays in the list of those above the limit",
        "join.join_node:JoinNode._hold",
        "if freed:",
        "if freed and False:",
    ),
    Bug(
        "rows are paired by the key of one side",
        "join.joined_view:row_deltas",
        "whole = encode_entry(key)",
        "whole = encode_entry(key[:1])",
    ),
    Bug(
        "the source of a contribution is the key of one side",
        "join.joined_columns:encoded_keys",
        "left[i] + right[j] + (values[i] if i >= 0 else others[j])",
        "left[i] + _part(None)",
    ),
    Bug(
        "a field view folds the rows that come, and not those that go",
        "join.joined_view:RowInput.add",
        "(none, added)",
        "(none, none)",
    ),
]


VIEW_BUGS = [
    Bug(
        "a side does not follow its view",
        "mapreduce.view_node:ViewNode.take",
        "for child in self.children:",
        "for child in self.children[1:]:",
    ),
    Bug(
        "a join runs before a view on an earlier join that is its side",
        "core.commit:Core.settle",
        "self.joins.run(writer, writes)",
        "[node.run(writer, writes) for node in reversed(list(self.joins))]",
    ),
    Bug(
        "a parent row is retracted by its new result",
        "mapreduce.parent_rows:row_deltas",
        "_row(group, old), _row(group, new)",
        "_row(group, new), _row(group, new)",
    ),
]


JOIN_BUGS = [
    Bug(
        "a join does not send its rows to the joins on it",
        "join.joined_view:send_rows",
        "for view in views:",
        "for view in [own for own in views if own.keeps is False or own.view.index is False]:",
    ),
    Bug(
        "a row of a side that is a join is retracted by the key of its first document",
        "join.joined_columns:row_sources",
        "text[:] = encoded_keys(rows)",
        "text[:] = [encode_entry((key[0],)) for key in row_keys(rows)]",
    ),
    Bug(
        "the projection of a join lacks the conditions of the joins on it",
        "views.sides.side_projection:_side_reads",
        "for pair in join.on for path in pair if path[0] == side.name",
        "for pair in join.on for path in pair if path[0] is None",
    ),
]


CHAIN_BUGS = [
    Bug(
        "a row of a chain lacks the condition value of its last step",
        "join.joined_columns:row_keys",
        "(*left[i][cut:], values[i])",
        "left[i][cut:]",
    ),
    Bug(
        "the keys of a chain are in the order of its steps",
        "join.joined_columns:row_keys",
        "keys[place] for place in rows.places",
        "keys",
    ),
    Bug(
        "a prefix lacks the paths of later conditions",
        "views.sides.side_projection:_reads",
        "read += [one for one, _ in join.next.steps()[1][-1].pairs] + _reads(join.next)",
        "read += _reads(join.next)",
    ),
]


@pytest.mark.parametrize("bug", CHAIN_BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_in_a_chain_of_joins_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert any(found_in_layers(seed, chained) for seed in SEEDS)


@pytest.mark.parametrize("bug", JOIN_BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_below_a_join_of_joins_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert any(found_in_layers(seed, nested) for seed in SEEDS)


def found_in_layers(seed: int, app_of: Callable[..., ps.App] = layered) -> bool:
    """Return True if a history of joins of views or joins differs from the oracle."""
    try:
        return history(seed, app_of=app_of) is not None
    except (PenstockError, AssertionError, AttributeError, LookupError, StopIteration, ValueError):
        return True


@pytest.mark.parametrize("bug", VIEW_BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_below_a_join_of_views_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert any(map(found_in_layers, SEEDS))


def found_by(seed: int) -> bool:
    """Return True if a history or a run with crashes differs from the oracle."""
    trial, plan = trial_of(seed, (joined(),))
    try:
        return history(seed) is not None or attempt(trial.app, plan, Totals()) is not None
    except (PenstockError, AssertionError, IndexError, KeyError, ValueError):
        return True


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert any(map(found_by, SEEDS))
