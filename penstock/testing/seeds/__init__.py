"""Search seeds, shrink failing runs, and explain them."""
