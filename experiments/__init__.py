"""The experiments of the paper's Results section and a few beyond it: one file a figure, one command for all.

`python -m experiments --quick` measures, draws and writes the report. A figure's file has

    plan(scale)          its cases, in groups that take turns
    run(case, turns)     measures one case and gives its row
    draw(rows)           the picture

and everything they share lies beside them: `series` says what is drawn where, `load` holds the loads, `runner` the
processes, `style` the visual language, `claims` what the paper says and what was found.
"""

FIGURES = ("distance", "latency", "fifo", "sharing", "bulk", "random_distance", "memory", "combines", "spark")
