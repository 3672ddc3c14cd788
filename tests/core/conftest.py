"""Fixtures that the tests of this folder share with other folders."""

from tests.harness.fixtures import place

__all__ = ["place"]
