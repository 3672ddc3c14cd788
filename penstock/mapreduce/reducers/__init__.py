"""The reducers and their cells."""
