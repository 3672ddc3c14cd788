"""Spouts: where records come from."""

from penstock.spout.record import Record

__all__ = ["Record"]
