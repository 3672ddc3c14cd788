"""The oracle: recomputes from scratch what every view must show. It imports nothing of the package that it judges.

The oracle is slow and simple. Numbers are fractions, groups are sorted by a key of the oracle's own, and each
transaction folds every view again. It keeps one thing that no recomputation could find: the last accepted emission of a
document that a view holds (`told`).
"""
