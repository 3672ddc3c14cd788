"""Page views in windows of a minute, with data that comes late, twice, and out of order."""
