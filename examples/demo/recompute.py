"""Compute the answers from scratch in plain Python, without penstock, to check the store."""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

Documents = dict[int, dict[str, Any]]
Answers = dict[str, dict[Any, Any]]


def newest(lines: Iterable[bytes]) -> Documents:
    """Return the winning orders of these lines: by key the version with the greatest ts, the last of equal ones."""
    out: Documents = {}
    for line in lines:
        order = json.loads(line)
        known = out.get(order["order_id"])
        if known is None or order["ts"] >= known["ts"]:
            out[order["order_id"]] = order
    return out


def recompute(users: Documents, orders: Documents, letters: int = 1) -> Answers:
    """Return the expected rows of every view of the shop for these documents."""
    names = Counter(user["name"] for user in users.values())
    lengths: Counter[int] = Counter()
    for name, n in names.items():
        lengths[len(name)] += n
    paid: dict[tuple[str, str], list[float]] = defaultdict(list)
    bought: dict[int, list[float]] = defaultdict(list)
    for order in orders.values():
        if order["paid"] is True:
            paid[order["country"], order["day"]].append(order["amount"])
        if order["amount"] > 0:
            bought[order["user"]].append(order["amount"])
    return {
        "namecount": dict(names),
        "by_length": dict(lengths),
        "initials": dict(Counter(user["name"][:letters] for user in users.values())),
        "spent": {user: math.fsum(amounts) for user, amounts in bought.items()},
        "revenue": {
            group: {"n": len(amounts), "total": math.fsum(amounts), "avg": statistics.mean(amounts)}
            for group, amounts in paid.items()
        },
    }
