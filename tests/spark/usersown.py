"""A module of the user's own, which the app of a test imports, and workers have to find."""

from __future__ import annotations

from typing import Any


def shout(text: Any) -> str:
    """A text in capitals; what is no text raises."""
    return str.upper(text)
