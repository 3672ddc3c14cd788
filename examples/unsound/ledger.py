"""A helper of `keyed_state` in a module of its own: it keeps the first customer of each order."""

from typing import Any

_FIRST: dict[Any, str] = {}


def first_customer(order: dict[str, Any]) -> str:
    """Return the customer of the first version of this order that it got."""
    return _FIRST.setdefault(order["id"], order["customer"])
