"""Draw graphs and live tables."""
