"""Faults of machines: lost power, full disks, flipped bits, and clocks that jump."""
