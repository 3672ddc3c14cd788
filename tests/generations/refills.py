"""Refills in tests, in steps of a few records."""

from __future__ import annotations

import sys

import pytest


def in_small_steps(monkeypatch: pytest.MonkeyPatch, lines: int = 4) -> None:
    """Set the number of records that a step copies or applies."""
    for name in ("generations.refill", "engine.partitioned_refill"):
        monkeypatch.setattr(sys.modules[f"penstock.{name}"], "_STEP_LINES", lines)
