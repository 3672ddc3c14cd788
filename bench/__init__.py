"""The figures of this package, each beside its limits: `python -m bench`.

A figure is measured in processes of its own (`child`), on input from a seed (`workload`), by the public API alone. What
the machine could do at best is measured in the same run, before and after each round (`limits`), because machines swing
by 2 within minutes: ratios hold, times don't. After each measurement the views are compared with what the input says.
"""
