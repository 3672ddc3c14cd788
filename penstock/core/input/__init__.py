"""Input on its way into a transaction."""
