"""Write docs/grafana.json, the dashboard of a pipeline's metrics."""

import json
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).resolve().parent.parent / "docs" / "grafana.json"
# Title, unit, and what is drawn: the expression by its legend.
PANELS: list[tuple[str, str, dict[str, str]]] = [
    (
        "Rows per second",
        "short",
        {"in": "rate(sash_rows_in_total{Q}[5m])", "results": "rate(sash_emitted_total{Q}[5m])"},
    ),
    (
        "Rows set aside per minute",
        "short",
        {
            "late": "60 * rate(sash_late_total{Q}[5m])",
            "quarantined": "60 * rate(sash_quarantined_total{Q}[5m])",
            "without a time": "60 * rate(sash_bad_times_total{Q}[5m])",
        },
    ),
    ("Watermark behind the clock", "s", {"lag": "sash_watermark_lag_seconds{Q}"}),
    (
        "Time in micro-batches",
        "s",
        {
            "last": "sash_batch_seconds{Q}",
            "mean": "rate(sash_busy_seconds_total{Q}[5m]) / rate(sash_batches_total{Q}[5m])",
        },
    ),
    (
        "Results per second",
        "short",
        {"revised": "rate(sash_revised_total{Q}[5m])", "deleted": "rate(sash_deleted_total{Q}[5m])"},
    ),
    (
        "Null results per minute",
        "short",
        {"failures": "60 * rate(sash_failures_total{Q}[5m])", "overflows": "60 * rate(sash_overflows_total{Q}[5m])"},
    ),
    ("State", "short", {"keys": "sash_live_keys{Q}", "rows": "sash_live_rows{Q}", "records": "sash_records{Q}"}),
    (
        "Bytes of state per second",
        "Bps",
        {
            "written": "rate(sash_written_bytes_total{Q}[5m])",
            "read": "rate(sash_read_bytes_total{Q}[5m])",
            "merged": "rate(sash_merged_bytes_total{Q}[5m])",
        },
    ),
    (
        "Buckets per second",
        "short",
        {
            "in memory": "rate(sash_hits_total{Q}[5m])",
            "behind": "rate(sash_catch_ups_total{Q}[5m])",
            "read again": "rate(sash_rebuilds_total{Q}[5m])",
        },
    ),
    ("Records of Kafka that are not read yet", "short", {"lag": "sash_kafka_lag_records{Q}"}),
]


def panel(place: int, title: str, unit: str, drawn: dict[str, str]) -> dict[str, Any]:
    """Return a panel; two are side by side."""
    query = '{query=~"$query"}'
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": place % 2 * 12, "y": place // 2 * 8, "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(65 + i), "expr": text.replace("{Q}", query), "legendFormat": f"{{{{query}}}} {legend}"}
            for i, (legend, text) in enumerate(drawn.items())
        ],
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard, with the data source and the query as variables."""
    variables = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {
            "name": "query",
            "type": "query",
            "label": "Query",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "query": "label_values(sash_batches_total, query)",
            "includeAll": True,
            "multi": True,
            "refresh": 2,
        },
    ]
    return {
        "title": "sash pipelines",
        "uid": "sash-pipelines",
        "tags": ["sash"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": [panel(place, *parts) for place, parts in enumerate(PANELS)],
    }


if __name__ == "__main__":
    DASHBOARD.write_text(json.dumps(dashboard(), indent=1) + "\n")
