"""Fixtures that the tests of this folder share with others."""

from tests.harness.fixtures import made

__all__ = ["made"]
