"""The deadline of waits in tests. A wait ends with progress, long before this deadline."""

from __future__ import annotations

PATIENCE = 300.0
"""Seconds after which a test gives up on an event. It measures nothing."""
