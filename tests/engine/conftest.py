"""Fixtures that the tests of this folder share with other folders."""

from tests.harness.fixtures import both, place

__all__ = ["both", "place"]
