"""One run of Penstock beside its peers: `python -m bench.peers`, or `make bench-peers`.

Each workload is a file of JSON lines and a set of views (`shapes`, `inputs`). Each peer has a driver, a program in an
environment of its own (`environments`, `drivers`). The bench runs the drivers in turns (`rounds`, `turns`). It compares
each final view with a full computation (`oracle`). Then it writes a JSON file and a page (`results`, `page`).
"""
