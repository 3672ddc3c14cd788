"""Fill a new store from sources in bulk."""
