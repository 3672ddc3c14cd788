"""Bugs planted in reduce trees that show only if hashes tie."""

from tests.harness.planting import Bug

TIES = [
    Bug(
        "sources that share a hash are one",
        "mapreduce.columns.items:same_items",
        "same &= np.fromiter((x == y for x, y in zip(left_text, right_text)), bool, int(same.size))",
        "pass",
    ),
    Bug(
        "ranks that share a hash are one", "mapreduce.columns.items:same_items", "same &= np.equal(left, right)", "pass"
    ),
    Bug(
        "what shares a hash stands as it came",
        "mapreduce.columns.items:sort_order",
        "if not tied.any() or",
        "if True or",
    ),
    Bug(
        "items that share a hash are merged by it",
        "mapreduce.columns.items:_places",
        "if not bool(same_items(old, place[at], new, at).all()):",
        "if False:",
    ),
    Bug(
        "the exact merge forgets where an item was",
        "mapreduce.columns.items:_merge_exactly",
        "was[i - size] = order.pop()",
        "order.pop()",
    ),
    Bug(
        "a node without bits left to tell its items apart is cut",
        "mapreduce.tries.path_refold:TrieUpdate._split",
        "& (depth < DEEPEST)",
        "& (depth < DEEPEST - 1)",
    ),
]
