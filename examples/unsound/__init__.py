"""Apps with one mistake each, which a crash test finds, and one that only looks like a mistake (`set_order`).

penstock crashtest --app examples/unsound/hidden_state.py
"""
