"""Fixtures that this folder shares with other tests."""

from tests.harness.fixtures import made

__all__ = ["made"]
