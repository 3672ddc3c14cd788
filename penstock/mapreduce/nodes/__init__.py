"""The nodes of a reduce tree."""
