"""The journal: postings stored as transactions, and the questions that a reader asks.

A crash between any two writes, a repeated posting, or a second replica that still believes to lead must neither lose
nor double an entry. A posting is one transaction that first advances the revision from the value on which it was
computed, which no second writer can do; entries have unique keys. A process that does not know whether its commit
arrived loads the accounts again. SQLite runs with a write-ahead log and synchronous=FULL. SQLAlchemy Core gives one
text of the statements for both databases.
Limits: entries are never deleted; calls block and belong in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Row, create_engine, event, func, or_, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, OperationalError, SQLAlchemyError

from cotenant.drivers.journal.schema import (
    VERSION,
    balances,
    check_version,
    entries,
    marks,
    migrate_once,
    version_of,
    version_table,
)
from cotenant.model.errors import InvalidInput, Permanent, Transient

_LOCK = 0x636F74656E616E74  # "cotenant": of the PostgreSQL advisory lock under which migrations run
_BUSY_S = 10
_EXPECTED = "sqlite:///PATH or postgresql://USER@HOST/DATABASE"
_Found = TypeVar("_Found")


class ConflictError(Transient):
    """Another writer posted first, or this posting is stored already: load the accounts again."""


class Transfer(Protocol):
    """What is stored of an entry."""

    @property
    def key(self) -> str:
        """Unique; the same key means the same transfer."""
        ...

    @property
    def at_ms(self) -> int:
        """Unix time."""
        ...

    @property
    def cause(self) -> str:
        """Why it was moved."""
        ...

    @property
    def payer(self) -> str:
        """The account that pays."""
        ...

    @property
    def payee(self) -> str:
        """The account that receives."""
        ...

    @property
    def milli(self) -> int:
        """Milli-credits, above 0."""
        ...

    @property
    def evidence(self) -> tuple[tuple[str, int | str], ...]:
        """The figures from which the amount follows."""
        ...


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One stored entry. `number` counts from 1 in the order of booking."""

    number: int
    key: str
    at_ms: int
    cause: str
    payer: str
    payee: str
    milli: int
    evidence: tuple[tuple[str, int | str], ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """The state that a process goes on from: marks, balances, and recent incidents with their reversals."""

    revision: int
    period: int
    period_end_ms: int
    balances: tuple[tuple[str, int], ...]
    incidents: tuple[tuple[str, int, str, str, int], ...]  # key, time, payer, payee, milli-credits


class Journal:
    """One database. Raises `InvalidInput` for a URL that cannot be used, `Transient` where the database does not
    answer.
    """

    def __init__(self, url: str, *, migrates: bool = True) -> None:
        """`url`: sqlite:///PATH or postgresql://USER@HOST/DATABASE. Without `migrates`, a database of another
        version is refused.
        """
        self.engine = _engine(url)
        with _database_errors():
            self._migrate() if migrates else self._check()

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    # ---- writing

    def post(self, revision: int, period: int, period_end_ms: int, transfers: Iterable[Transfer]) -> None:
        """Store a posting computed on `revision`. Raises `ConflictError` where another was stored since; then
        nothing is stored.
        """
        rows = list(transfers)
        with _database_errors():
            try:
                with self.engine.begin() as connection:
                    _advance(connection, revision)
                    for name, value in (("period", period), ("period_end_ms", period_end_ms)):
                        connection.execute(update(marks).where(marks.c.name == name).values(value=value))
                    if rows:
                        first = connection.execute(select(func.coalesce(func.max(entries.c.number), 0))).scalar_one()
                        connection.execute(entries.insert(), [_row(first + 1 + i, row) for i, row in enumerate(rows)])
                    for account, milli in _changes(rows).items():
                        _book(connection, account, milli)
            except IntegrityError as error:
                raise ConflictError("credit: an entry of this posting is stored already") from error

    # ---- reading

    def contents(self, since_ms: int = 0) -> Contents:
        """What a process goes on from, read in one transaction; incidents since `since_ms`."""

        def read(connection: Connection) -> Contents:
            values = {name: int(value) for name, value in connection.execute(select(marks.c.name, marks.c.value))}
            recent = select(entries.c.key, entries.c.at_ms, entries.c.payer, entries.c.payee, entries.c.milli).where(
                entries.c.key.like("incident/%"), entries.c.at_ms >= since_ms
            )
            return Contents(
                values["revision"],
                values["period"],
                values["period_end_ms"],
                _pairs(connection.execute(select(balances.c.account, balances.c.milli).order_by(balances.c.account))),
                tuple(
                    (str(row.key), int(row.at_ms), str(row.payer), str(row.payee), int(row.milli))
                    for row in connection.execute(recent.order_by(entries.c.number))
                ),
            )

        return self._read(read)

    def records(
        self, account: str = "", *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> list[JournalRecord]:
        """Entries in the order of booking, of one account if named; `newest` = the last ones, the latest first."""
        query = select(entries).where(entries.c.number > after)
        if account:
            query = query.where(or_(entries.c.payer == account, entries.c.payee == account))
        query = query.order_by(entries.c.number.desc() if newest else entries.c.number).limit(limit)
        return self._read(lambda connection: [_record(row) for row in connection.execute(query)])

    def record(self, name: str) -> JournalRecord | None:
        """One entry, by its number or its key."""
        by_number = name.isascii() and name.isdigit() and len(name) < 19
        query = select(entries).where(entries.c.number == int(name) if by_number else entries.c.key == name)

        def read(connection: Connection) -> JournalRecord | None:
            row = connection.execute(query).first()
            return None if row is None else _record(row)

        return self._read(read)

    def validate(self) -> None:
        """Check that balances are the sums of the entries and add up to zero. Raises `Permanent`."""

        def read(connection: Connection) -> tuple[dict[str, int], dict[str, int]]:
            kept = dict(_pairs(connection.execute(select(balances.c.account, balances.c.milli))))
            sums: dict[str, int] = {}
            for row in connection.execute(select(entries.c.payer, entries.c.payee, entries.c.milli)):
                payer, payee, amount = str(row[0]), str(row[1]), int(row[2])
                sums[payer] = sums.get(payer, 0) - amount
                sums[payee] = sums.get(payee, 0) + amount
            return kept, sums

        kept, sums = self._read(read)
        if kept != sums or sum(kept.values()) != 0:
            raise Permanent(f"credit: the balances {kept} are not the sums of the entries {sums}")

    # ---- internals

    def _read(self, read: Callable[[Connection], _Found]) -> _Found:
        with _database_errors(), self.engine.connect() as connection:
            if self.engine.dialect.name == "sqlite":  # its transactions have one snapshot
                return read(connection.execution_options(reads=True))
            return read(connection.execution_options(isolation_level="REPEATABLE READ"))

    def _migrate(self) -> None:
        with self.engine.begin() as connection:
            self._lock(connection)
            version_table.create(connection, checkfirst=True)
        while True:
            with self.engine.begin() as connection:
                self._lock(connection)
                if not migrate_once(connection):
                    return

    def _lock(self, connection: Connection) -> None:
        if self.engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})

    def _check(self) -> None:
        with self.engine.connect() as connection:
            connection = connection.execution_options(reads=True)
            if not self.engine.dialect.has_table(connection, version_table.name):
                raise InvalidInput(
                    "--store", _shown(self.engine), "a journal of credit", "`cotenant credit serve` makes one"
                )
            version = version_of(connection)
        check_version(version)
        if version < VERSION:
            raise Permanent(
                f"the journal has schema version {version}, not {VERSION}: `cotenant credit serve` migrates it"
            )


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
        if name == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        elif name != "sqlite":
            raise InvalidInput("--store", parsed.render_as_string(hide_password=True), _EXPECTED)
        engine = create_engine(parsed, pool_pre_ping=name != "sqlite")
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise InvalidInput("--store", url.partition("://")[0], _EXPECTED) from error
    except ModuleNotFoundError as error:
        raise InvalidInput("--store", name, "psycopg installed", "pip install 'cotenant[credit]'") from error
    if name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions by itself, too late for DDL and reads
    connection.execute(f"PRAGMA busy_timeout={_BUSY_S * 1000}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)


@contextmanager
def _database_errors() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise Transient(f"the journal's database does not answer: {error.orig}") from error
    except SQLAlchemyError as error:
        raise Permanent(f"the journal's database refuses: {getattr(error, 'orig', None) or error}") from error


def _advance(connection: Connection, revision: int) -> None:
    done = connection.execute(
        update(marks).where(marks.c.name == "revision", marks.c.value == revision).values(value=revision + 1)
    )
    if done.rowcount != 1:
        raise ConflictError(f"credit: the journal is no longer at revision {revision}")


def _changes(rows: Iterable[Transfer]) -> dict[str, int]:
    changes: dict[str, int] = {}
    for row in rows:
        changes[row.payer] = changes.get(row.payer, 0) - row.milli
        changes[row.payee] = changes.get(row.payee, 0) + row.milli
    return changes


def _book(connection: Connection, account: str, milli: int) -> None:
    """Change a balance; an account begins with its first entry."""
    done = connection.execute(
        update(balances).where(balances.c.account == account).values(milli=balances.c.milli + milli)
    )
    if done.rowcount == 0:
        connection.execute(balances.insert(), [{"account": account, "milli": milli}])


def _pairs(rows: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    return tuple((str(row[0]), int(row[1])) for row in rows)


def _row(number: int, transfer: Transfer) -> dict[str, object]:
    return {
        "number": number,
        "key": transfer.key,
        "at_ms": transfer.at_ms,
        "cause": str(transfer.cause),
        "payer": transfer.payer,
        "payee": transfer.payee,
        "milli": transfer.milli,
        "evidence": json.dumps(transfer.evidence, separators=(",", ":")),
    }


def _record(row: Row[Any]) -> JournalRecord:
    given: list[tuple[str, int | str]] = json.loads(row.evidence)
    evidence = tuple((name, value) for name, value in given)
    return JournalRecord(row.number, row.key, row.at_ms, row.cause, row.payer, row.payee, row.milli, evidence)
