"""Run any history of trees on every store. The rows must equal the oracle's; every node must equal its recomputation.

One machine covers every reducer without an inverse, alone and in one row with accumulators. It covers kept
contributions, indexes, functions that yield several values per group, and chained views. Nodes hold two contributions,
so that they fill often, and a dozen deferred writes are flushed at a time.
"""

from __future__ import annotations

import shutil
import tempfile
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.mapreduce.trees import tree_histories
from tests.mapreduce.trees.tree_histories import TreeHistory

RANDOM = st.randoms(use_true_random=False)


class TreeMachine(RuleBasedStateMachine):
    """Trees, with everything that they are compared with."""

    ties = False
    lmdb = False

    @initialize(wrong=st.booleans(), capacity=st.sampled_from([1, 2, 2, 3]))
    def open(self, wrong: bool, capacity: int) -> None:
        self.path = tempfile.mkdtemp(prefix="penstock-") if self.lmdb else None
        where = None if self.path is None else f"{self.path}/state"
        self.history = TreeHistory(Random(0), wrong, path=where, capacity=capacity, ties=self.ties)
        self.trees = self.history.trees

    @rule(choose=RANDOM, size=st.sampled_from([1, 1, 2, 4, 10, 25]))
    def take(self, choose: Random, size: int) -> None:
        self.history.choose = choose
        self.trees.take(list(self.history.records(size)))

    @rule(choose=RANDOM, share=st.sampled_from([0.3, 0.8, 1.0]))
    def take_away(self, choose: Random, share: float) -> None:
        """Delete most documents of a table in one batch, so that retractions dominate."""
        self.trees.take(list(self.history.deletions(choose, share)))

    @rule(choose=RANDOM)
    def undone(self, choose: Random) -> None:
        self.history.choose = choose
        self.trees.undone(list(self.history.records(3)))

    @rule()
    def reopen(self) -> None:
        self.trees.reopen()

    @precondition(lambda self: not self.lmdb)
    @rule()
    def lose(self) -> None:
        self.trees.lose()

    @rule()
    def forget(self) -> None:
        self.trees.forget()

    @precondition(lambda self: not self.history.trees.wrong)
    @rule(choose=RANDOM)
    def begin_anew(self, choose: Random) -> None:
        self.trees.check_anew(choose)

    @invariant()
    def all_is_as_it_should_be(self) -> None:
        if hasattr(self, "trees"):
            self.trees.check()

    def teardown(self) -> None:
        if hasattr(self, "trees"):
            self.trees.close()
            if self.path:
                shutil.rmtree(self.path)


class TiedMachine(TreeMachine):
    """A machine with many equal hashes, so that whole keys decide."""

    ties = True


class LmdbMachine(TreeMachine):
    """A machine on disk."""

    lmdb = True


BUDGET = settings(max_examples=settings().max_examples // 10, stateful_step_count=12)
TestTrees = TreeMachine.TestCase
TestTied = TiedMachine.TestCase
TestLmdb = LmdbMachine.TestCase
TestTrees.settings = TestTied.settings = TestLmdb.settings = BUDGET


@pytest.mark.parametrize("seed", range(3))
def test_long_histories(seed: int) -> None:
    tree_histories.run(seed, 24)


@pytest.mark.parametrize("seed", range(2))
def test_long_histories_of_ties(seed: int) -> None:
    tree_histories.run(seed, 20, ties=True)


def test_nodes_of_their_full_size() -> None:
    """Thousands of documents make trees of three levels, with nodes of 32 contributions."""
    tree_histories.run_large(seed=1, steps=6, keys=3000)
