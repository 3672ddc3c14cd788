"""A shop whose figures follow its orders: placed, changed, paid, cancelled, withdrawn."""
