"""The oracle: what every view must show, recomputed from scratch. It imports nothing of the package it judges.

Where the engine is clever, the oracle is slow: numbers are fractions, groups are sorted by a key of its own, and every
view is folded anew after every transaction. It keeps one thing that no recompute could tell: what a view was last
told of a document it can't take (`told`).
"""
