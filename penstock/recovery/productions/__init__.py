"""Keep productions until their partition has saved them."""
