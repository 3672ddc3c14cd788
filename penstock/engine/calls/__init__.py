"""The calls of `Engine`, in groups by subject."""
