"""The pipeline file that `sash new` writes."""

STARTER = """\
# A pipeline: where rows come from, what is made of them, and where it goes. It runs as it is, on made-up payments:
#     sash check pipeline.toml          what it would do
#     sash run pipeline.toml            a live view; Ctrl-C stops, and the same command goes on
#     sash run pipeline.toml --once     takes what there is, and ends
# Paths are relative to the directory that it is run in. All keys: docs/pipeline.md.

name = "payments"
mode = "streaming"                      # or "available-now": what there is, then end; or "batch": no checkpoint needed
checkpoint = "out/checkpoint"           # where a stream keeps its state; a new file needs a new one
# trigger = "10 seconds"                # how often a micro-batch begins; without it as soon as the last one ended
# finish = true                         # with "available-now": what waits for the watermark comes out at the end

[source]
format = "demo"                         # any format of Spark's ("json", "kafka", "delta"), "replay", or "table"
# path = "in/"                          # for formats that read files
# schema = "card string, ts timestamp, amount double"
watermark = "1 minute"                  # how far behind the newest row the watermark stands

[source.options]                        # whatever the format takes; these are the demo's
kind = "payments"
keys = 50
rate = 20                               # events a second; 10% of them come late
rows = 50_000
rows_per_batch = 10_000
speed = 120                             # how much faster than they happened

# [[steps]]                             # any number of them, each a `where` or a `select`, in SQL
# where = "amount > 100"

[quarantine]                            # rows that cannot be used are counted, and set aside here as Parquet
path = "out/quarantine"
ahead = "1 hour"                        # a row dated later than this would move the watermark for good ...
ahead_of = "arrival"                    # ... later than this column; without it, than the clock

[rolling]                               # the words of sash.spark.rolling
keys = ["card"]
time = "ts"
windows = ["5m", "1h"]
every = "1 minute"                      # a result for each key and minute; without it, for each row
emit = "update"                         # shown when the watermark comes, revised when late rows do; or "final"
lateness = "15 minutes"                 # how much longer late rows still count

[rolling.aggs]                          # columns first, then parameters; docs/monoids.md has them all
n = "count()"
total = "sum(amount)"
top = "max(amount)"

[sink]
format = "upsert"                       # keeps the latest revision of each result; or any format of Spark's, "console"
path = "out/results"

[spark]
master = "local[2]"

[view]
column = "total_1h"                     # what the live view draws
"""
