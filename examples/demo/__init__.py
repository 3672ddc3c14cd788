"""The demo: a short, real story that each run tells. Start it with `make demo`."""
