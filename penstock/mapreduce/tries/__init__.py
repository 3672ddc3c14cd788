"""The tries over the contributions of a group."""
