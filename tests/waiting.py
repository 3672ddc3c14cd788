"""Waits of tests: for progress, with a last deadline that no busy machine reaches."""

from __future__ import annotations

PATIENCE = 300.0
"""Seconds until a test gives up on an event. Nothing is measured by it."""
