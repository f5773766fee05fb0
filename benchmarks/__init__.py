"""Small stable benchmarks: ratios within one run, every answer verified before it counts."""
