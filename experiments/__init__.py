"""The experiments of the paper's Results section and a few beyond it: one file per figure, one command for all.

`python -m experiments --quick` measures, draws and writes the report. A figure's file has

    plan(scale)          its cases, in groups that take turns
    run(case, turns)     measures one case and returns its row
    draw(rows)           the picture

and everything they share is in this package: `series` defines what is drawn where, `load` has the loads, `runner` the
processes, `style` the visual language, `claims` the paper's statements and the measurements.
"""

FIGURES = ("distance", "latency", "fifo", "sharing", "bulk", "random_distance", "memory", "combines", "spark")
