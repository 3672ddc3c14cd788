"""A leaderboard: the best of many players, right also when a score is corrected or taken away."""
