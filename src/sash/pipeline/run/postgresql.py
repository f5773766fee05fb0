"""The connection of a sink with `format = "postgresql"`: by a DSN in the file, in a variable, or by libpq's own rules.

A DSN may hold a password, so no message repeats one.
"""

import os
from dataclasses import dataclass
from typing import Any

from sash.errors import ArgumentError, UnsupportedError, shown
from sash.pipeline.config.read import Pipeline

_EXAMPLE = "'host=db.example dbname=results user=sash'"


@dataclass(frozen=True)
class PostgresqlConnect:
    """Opens connections; a class, so that it can be pickled for a Spark Connect server."""

    dsn: str | None
    dsn_env: str | None

    def __call__(self) -> Any:
        """Return a connection, or raise ArgumentError with the server's reason."""
        psycopg = _psycopg()
        try:
            return psycopg.connect(self.text())
        except psycopg.Error as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ArgumentError(f"PostgreSQL cannot be reached: {reason}.", argument=self._argument) from error

    def text(self) -> str:
        """Return the DSN, checked; where there is none, libpq reads PGHOST, PGSERVICE and the like."""
        psycopg = _psycopg()
        text = self.dsn or ""
        if self.dsn_env is not None:
            if self.dsn_env not in os.environ:
                message = f"must be the name of an environment variable, got {shown(self.dsn_env)}, which is not set."
                raise ArgumentError(message, argument=self._argument)
            text = os.environ[self.dsn_env]
        try:
            psycopg.conninfo.conninfo_to_dict(text)
        except psycopg.Error:
            where = "must be" if self.dsn_env is None else f"must name a variable that holds, unlike {self.dsn_env},"
            raise ArgumentError(f"{where} a DSN such as {_EXAMPLE}.", argument=self._argument) from None
        return text

    @property
    def _argument(self) -> str:
        return "dsn" if self.dsn_env is None else "dsn_env"


def connect_of(pipeline: Pipeline) -> PostgresqlConnect:
    """Return the function that connects, after checking what can be checked without the server."""
    options = pipeline.sink.options
    connect = PostgresqlConnect(options.get("dsn"), options.get("dsn_env"))
    connect.text()
    return connect


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UnsupportedError(
            'format = "postgresql" needs psycopg, which is not installed; run pip install "sash[postgresql]".'
        ) from error
    return psycopg
