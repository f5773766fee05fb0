"""The pipeline file that `sash new` writes."""

STARTER = """\
# A pipeline: a source of rows, the windows to compute, and a sink for the results. It runs as is, on made-up payments:
#     sash check pipeline.toml          validate it, without reading any rows
#     sash run pipeline.toml            run it with a live view; Ctrl-C stops, the same command resumes
#     sash run pipeline.toml --once     process the available data, then exit
# Paths are relative to the working directory. All keys: docs/pipeline.md.

name = "payments"
mode = "streaming"                      # or "available-now": process the available data, then exit; or "batch"
checkpoint = "out/checkpoint"           # where a stream keeps its state; each pipeline needs its own
# trigger = "10 seconds"                # how often a micro-batch starts; default: when the last one ends
# finish = true                         # with "available-now": also emit what still waits for the watermark

[source]
format = "demo"                         # any Spark format ("json", "kafka", "delta"), "replay", or "table"
# path = "in/"                          # for formats that read files; `topic` and `servers` for "kafka"
# schema = "card string, ts timestamp, amount double"
watermark = "1 minute"                  # how far the watermark is behind the newest row

[source.options]                        # options of the format; these are for "demo"
kind = "payments"
keys = 50
rate = 20                               # events per second; 10% of them arrive late, some by minutes
rows = 30_000
rows_per_batch = 3_000
speed = 120                             # replay speed: 120 times faster than real time

# [[steps]]                             # any number of steps, each a `where` or a `select` in SQL
# where = "amount > 100"                # the same after the aggregation, for results: [[output.steps]]

[quarantine]                            # rows that cannot be used are counted, and written here as Parquet
path = "out/quarantine"
ahead = "1 hour"                        # rows this far in the future are set aside: they would move the watermark ...
ahead_of = "arrival"                    # ... compared with this column; default: the clock

[rolling]                               # the arguments of sash.spark.rolling
keys = ["card"]
time = "ts"
windows = ["5m", "1h"]
every = "1 minute"                      # one result per key and minute; default: one per row
emit = "update"                         # emitted at the watermark, revised when late rows arrive; or "final"
lateness = "5 minutes"                  # how long after the watermark late rows count; others are dropped, and counted

[rolling.aggs]                          # columns first, then parameters; all aggregates: docs/monoids.md
n = "count()"
total = "sum(amount)"
top = "max(amount)"

[sink]
format = "upsert"                       # keeps the latest revision of each result; or "kafka", "console", any of Spark
path = "out/results"

[spark]
master = "local[2]"

[view]
column = "total_1h"                     # the column that the live view plots
"""
