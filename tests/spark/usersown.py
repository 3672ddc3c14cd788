"""A module of the user's own, which the app of a test imports, and which workers must find."""

from __future__ import annotations

from typing import Any


def shout(text: Any) -> str:
    """Return a text in capitals. Raise an error for other values."""
    return str.upper(text)
