"""Fixtures that the tests of this folder share with others."""

from tests.harness.fixtures import place

__all__ = ["place"]
