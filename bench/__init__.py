"""The figures of this package, each beside its limits: `python -m bench`.

A figure is measured in fresh processes (`child`), on input from a seed (`workload`), through the public API alone. The
limits of the machine are measured in the same run, before and after each round (`limits`). Machines vary by a factor of
2 within minutes: ratios are stable, times are not. After each measurement the views are compared with the input.
"""
