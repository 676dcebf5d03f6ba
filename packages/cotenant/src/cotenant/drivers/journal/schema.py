"""Tables of the journal, and the migrations that lead to them.

A newer version must read a database that an older one wrote, and an older one must not write into a newer schema. A
table with the version; each migration is one transaction with its version, and replicas that start together are ordered
by the database (a lock on the version table in PostgreSQL, BEGIN IMMEDIATE in SQLite). A database of a newer version is
refused.
Limits: no way back to an older schema.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, MetaData, String, Table, Text, func, select

from cotenant.model.errors import Permanent

metadata = MetaData()

version_table = Table("credit_schema", metadata, Column("version", Integer, primary_key=True))
entries = Table(
    "credit_entries",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("key", String(512), nullable=False, unique=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("cause", String(32), nullable=False),
    Column("payer", String(320), nullable=False),
    Column("payee", String(320), nullable=False),
    Column("milli", BigInteger, nullable=False),
    Column("evidence", Text, nullable=False),  # JSON list of [name, value]
)
marks = Table("credit_marks", metadata, Column("name", String(32), primary_key=True), Column("value", BigInteger))
balances = Table(
    "credit_balances",
    metadata,
    Column("account", String(320), primary_key=True),
    Column("milli", BigInteger, nullable=False),
)
by_payer = Index("credit_entries_payer", entries.c.payer, entries.c.number)
by_payee = Index("credit_entries_payee", entries.c.payee, entries.c.number)

MARKS = ("revision", "period", "period_end_ms")


def _first(connection: Connection) -> None:
    """Entries and marks."""
    entries.create(connection)
    marks.create(connection)
    connection.execute(marks.insert(), [{"name": name, "value": 0} for name in MARKS])


def _with_balances(connection: Connection) -> None:
    """Balances beside the entries, so that a start does not sum the whole journal."""
    balances.create(connection)
    sums: dict[str, int] = {}
    for side, sign in ((entries.c.payer, -1), (entries.c.payee, 1)):
        for account, milli in connection.execute(select(side, func.sum(entries.c.milli)).group_by(side)):
            sums[account] = sums.get(account, 0) + sign * int(milli)
    if sums:
        rows = [{"account": account, "milli": milli} for account, milli in sorted(sums.items())]
        connection.execute(balances.insert(), rows)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first, _with_balances)
VERSION = len(MIGRATIONS)


def version_of(connection: Connection) -> int:
    """The version of the schema; 0 where the version table is empty."""
    return connection.execute(select(func.coalesce(func.max(version_table.c.version), 0))).scalar_one()


def check_version(version: int) -> None:
    """Raise `Permanent` for a schema of a newer version."""
    if version > VERSION:
        raise Permanent(
            f"the journal has schema version {version}, this version of cotenant knows {VERSION}: run the newer "
            "cotenant"
        )


def migrate_once(connection: Connection, upto: int = VERSION) -> bool:
    """Apply the next migration within the caller's transaction. Whether there was one."""
    version = version_of(connection)
    check_version(version)
    if version >= upto:
        return False
    MIGRATIONS[version](connection)
    connection.execute(version_table.insert(), [{"version": version + 1}])
    return True
