"""Output of `cotenant credit`: balances, entries and explanations as tables or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cotenant.cli import tables
from cotenant.model.assess.prices import credit_price
from cotenant.model.errors import InvalidInput
from cotenant.policy.credit.entries import HOUSE, account_of, credits_text, tenant_of
from cotenant.services.credit.opening import open_journal
from cotenant.services.prices import price_table

if TYPE_CHECKING:
    from cotenant.drivers.journal.journal import Journal, JournalRecord

_PAGE = 1000
_MEANS: dict[str, str] = {
    "lent": "its idle guarantee was used by others.",
    "declared": "its pods used what they declared, and no more.",
    "borrowed": "its pods requested more than its guarantee.",
    "unused": "it borrowed, and by measurement its pods did not use it.",
    "shared": "others used unreserved capacity, of which its guarantee has a share.",
    "exceeded": "its pods used more than they declared.",
    "interfered": "its pod slowed one of the other tenant; no objective was missed.",
    "compensated": "its pod slowed one of the other tenant, which missed its objective.",
    "reversed": "an earlier entry about an incident is undone, since the culprit was cleared.",
    "decayed": "every balance moves towards zero with time.",
    "bounded": "the balance, or debt, was beyond the bound.",
}
_UNITS = (
    ("_milli_core_hours", 1000, "core-hours"),
    ("_milli_cpu", 1000, "cores"),
    ("_bytes", 1 << 30, "GiB"),
    ("_permille", 10, "%"),
    ("_ppm", 10_000, "%"),
    ("_gpus", 1, "GPUs"),
    ("_milli", 1000, "credits"),
    ("_ms", 1000, "s"),
)


def tenants(store: str, as_json: bool, prices: Path | None = None) -> int:
    """Print all balances, in money too where there are prices."""
    money = _money(prices)
    with _journal(store) as journal:
        balances = journal.contents().balances
    if as_json:
        _print_json(
            [
                {"account": account, "balance_milli": milli}
                | ({} if money is None else {"balance_money": money.worth(milli), "currency": money.currency})
                for account, milli in balances
            ]
        )
        return 0
    rows = [
        (tenant_of(account), credits_text(milli), *(() if money is None else (f"{money.worth(milli):.2f}",)))
        for account, milli in balances
        if tenant_of(account)
    ]
    rows.sort(key=lambda row: row[0])
    house = dict(balances).get(HOUSE, 0)
    if rows:
        tables.print_words(("tenant", "balance, credits", *(() if money is None else (money.heading,))), rows)
    tables.print_folded(
        f"The house has {credits_text(house)}; all accounts together are {credits_text(sum(m for _, m in balances))}."
        if rows
        else "No tenant has an account yet. A tenant is an ElasticQuota that pods use: the first entries are made a "
        "period (--period-s, 60 s) after it lends or borrows."
    )
    return 0


def tenant(store: str, name: str, limit: int, as_json: bool) -> int:
    """Print one tenant."""
    if limit < 1:
        raise InvalidInput("--limit", limit, "1 or more")
    account = account_of(name)
    with _journal(store) as journal:
        balances = dict(journal.contents().balances)
        if account not in balances:
            known = ", ".join(sorted(found for balance in balances if (found := tenant_of(balance)))) or "none"
            raise InvalidInput("TENANT", name, "a tenant with an account", f"there are: {known}")
        records = journal.records(account, limit=limit, newest=True)
    if as_json:
        _print_json(
            {"tenant": name, "balance_milli": balances[account], "entries": [_plain(record) for record in records]}
        )
        return 0
    tables.print_folded(f"{name}: {credits_text(balances[account])} credits")
    rows = [
        (str(r.number), _time(r), r.cause, credits_text(r.milli if r.payee == account else -r.milli)) for r in records
    ]
    tables.print_words(("entry", "time", "cause", "credits"), rows)
    return 0


def why(store: str, entry: str, as_json: bool) -> int:
    """Print one entry with its figures."""
    with _journal(store) as journal:
        record = journal.record(entry)
    if record is None:
        raise InvalidInput(
            "ENTRY", entry, "the number or the key of an entry", "`cotenant credit show TENANT` has them"
        )
    if as_json:
        _print_json(_plain(record))
        return 0
    payer, payee = (tenant_of(element) or "the house" for element in (record.payer, record.payee))
    tables.print_folded(f"entry {record.number} ({record.key}), {_time(record)}")
    tables.print_folded(
        f"{payer} paid {credits_text(record.milli)} credits to {payee}: {_MEANS.get(record.cause, record.cause)}"
    )
    figures = [figure_text(name, value) for name, value in record.evidence]
    if figures:
        print()
        tables.print_words(("figure", "value"), figures)
    return 0


def figure_text(name: str, value: int | str) -> tuple[str, str]:
    """A figure of an entry as name and value with its unit: `("borrowed_milli_cpu", 2500)` is `("borrowed", "2.5
    cores")`.
    """
    if isinstance(value, int):
        for ending, divisor, unit in _UNITS:
            if name.endswith(ending):
                return name.removesuffix(ending).replace("_", " ").strip(), f"{value / divisor:.6g} {unit}"
    return name.replace("_", " "), str(value)


def export(store: str, after: int) -> int:
    """Print all entries as lines of JSON."""
    if after < 0:
        raise InvalidInput("--after", after, "0 or more")
    with _journal(store) as journal:
        while records := journal.records(after=after, limit=_PAGE):
            for record in records:
                sys.stdout.write(msgspec.json.encode(_plain(record)).decode() + "\n")
            after = records[-1].number
    return 0


@dataclass(frozen=True, slots=True)
class _Money:
    """What a credit is worth."""

    per_credit: float
    currency: str

    @property
    def heading(self) -> str:
        """Of the column."""
        return f"worth, {self.currency}" if self.currency else "worth"

    def worth(self, milli: int) -> float:
        """Of milli-credits."""
        return round(milli * self.per_credit / 1000, 6)


def _money(prices: Path | None) -> _Money | None:
    table = price_table(prices)
    return None if table is None else _Money(credit_price(table, str(prices)), table.currency)


@contextmanager
def _journal(store: str) -> Iterator[Journal]:
    journal = open_journal(store, migrates=False)
    try:
        yield journal
    finally:
        journal.close()


def _plain(record: JournalRecord) -> dict[str, object]:
    return {
        "number": record.number,
        "key": record.key,
        "at_ms": record.at_ms,
        "cause": record.cause,
        "payer": record.payer,
        "payee": record.payee,
        "milli": record.milli,
        "evidence": dict(record.evidence),
    }


def _time(record: JournalRecord) -> str:
    return datetime.fromtimestamp(record.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _print_json(value: object) -> None:
    print(msgspec.json.encode(value).decode())
