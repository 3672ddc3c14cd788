"""The laws of a user's maps and reducers."""
