"""A leaderboard: the best of many players, also correct after a score is corrected or deleted."""
