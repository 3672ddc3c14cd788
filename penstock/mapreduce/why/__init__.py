"""Find the contributions to a group."""
