"""Totals of queries as Prometheus metrics, on a port of the driver."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sash.errors import ArgumentError, UnsupportedError, shown
from sash.spark.stream.totals import COUNTERS, GAUGES, Totals

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

PREFIX = "sash_"


def require_package() -> None:
    """Raise if prometheus_client is not installed."""
    if find_spec("prometheus_client") is None:
        raise UnsupportedError(
            "metrics must be omitted, or prometheus_client must be installed: pip install 'sash[metrics]'.",
            argument="metrics",
        )


def collector_of(totals: Callable[[], dict[str, Totals]]) -> "Collector":
    """Return a collector of what a function returns: the totals by the name of a query."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class QueryCollector(Collector):
        def collect(self) -> Iterator[Any]:
            now = totals()
            for kinds, family, values in (
                (COUNTERS, CounterMetricFamily, {query: one.counters for query, one in now.items()}),
                (GAUGES, GaugeMetricFamily, {query: one.gauges for query, one in now.items()}),
            ):
                for name, meaning in kinds.items():
                    metric = family(PREFIX + name, meaning.capitalize(), labels=["query"])
                    for query, numbers in values.items():
                        metric.add_metric([query], numbers[name])
                    yield metric

    return QueryCollector()


def serve(port: int, totals: Callable[[], dict[str, Totals]], host: str = "0.0.0.0") -> Callable[[], None]:
    """Serve the totals at `/metrics` until the function that is returned is called."""
    require_package()
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(collector_of(totals))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ArgumentError(
            f"metrics must be a free port of this machine, got {shown(port)}: {error.strerror}.", argument="metrics"
        ) from None

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
