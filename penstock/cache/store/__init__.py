"""Define the store protocol that the rooms above use, and the store in memory."""
