"""A small real story, told by a run of it: `make demo`."""
