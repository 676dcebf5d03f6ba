"""Pages of credit: reading for callers on this machine or with the token, and reporting of incidents.

    GET  /credit/v1/tenants                       every tenant's balance and standing
    GET  /credit/v1/tenants/NAME?limit=N          one tenant with its last entries
    GET  /credit/v1/entries?after=N&limit=N       entries in the order of booking; with newest=1 the last ones, the
                                                  latest first
    GET  /credit/v1/entries/NUMBER                one entry with its explanation
    POST /credit/v1/incidents                     interference that was attributed (incidents.py)

The routes and the guard of the scheduler's debug API.
Limits: no TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cotenant.drivers.http.messages import (
    JSON,
    BodyRefused,
    Disconnected,
    HttpAnswer,
    Receive,
    Scope,
    Send,
    send_answer,
)
from cotenant.drivers.journal.journal import Journal, JournalRecord
from cotenant.engine.credit.accounts import Accounts
from cotenant.model.errors import InvalidInput
from cotenant.policy.credit.entries import CreditEntry, EntryCause, account_of
from cotenant.services.credit.incidents import IncidentEndpoint
from cotenant.services.reporting.incident import PATH as INCIDENTS
from cotenant.services.routes import CallerGuard, PageRequest, Route, Routes, UnknownName

PREFIX = "/credit/v1/"
MOST = 1000


class CreditPages:
    """The ASGI application. `accounts` gives the current ones."""

    def __init__(
        self, journal: Journal, accounts: Callable[[], Accounts], guard: CallerGuard, incidents: IncidentEndpoint
    ) -> None:
        self._journal = journal
        self._accounts = accounts
        self._incidents = incidents
        self._routes = Routes(
            (
                Route("GET", PREFIX + "tenants", self._tenants),
                Route("GET", PREFIX + "tenants/:tenant", self._tenant),
                Route("GET", PREFIX + "entries", self._entries),
                Route("GET", PREFIX + "entries/:number", self._entry),
            ),
            guard,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] != INCIDENTS:
            await self._routes(scope, receive, send)
            return
        try:
            answer = await self._incidents.answer(scope, receive)
        except BodyRefused as refused:
            answer = refused.answer
        except Disconnected:
            return
        await send_answer(send, answer)

    def _tenants(self, asked: PageRequest) -> HttpAnswer:
        return _json(200, [tenant_view(self._accounts(), name) for name in self._accounts().tenants()])

    def _tenant(self, asked: PageRequest) -> Callable[[], HttpAnswer]:
        name, limit = asked.names[0], _number(asked.query, "limit", 20)
        accounts = self._accounts()
        if name not in accounts.tenants():
            raise UnknownName(f"no tenant {name} has an account")
        view = tenant_view(accounts, name)

        def answer() -> HttpAnswer:
            records = self._journal.records(account_of(name), limit=min(limit, MOST), newest=True)
            return _json(200, {**view, "entries": [record_view(record) for record in records]})

        return answer

    def _entries(self, asked: PageRequest) -> Callable[[], HttpAnswer]:
        after, limit = _number(asked.query, "after", 0), _number(asked.query, "limit", 100)
        newest = _number(asked.query, "newest", 0) > 0
        return lambda: _json(
            200,
            [
                record_view(record)
                for record in self._journal.records(after=after, limit=min(limit, MOST), newest=newest)
            ],
        )

    def _entry(self, asked: PageRequest) -> Callable[[], HttpAnswer]:
        def answer() -> HttpAnswer:
            found = self._journal.record(asked.names[0])
            return _error(404, "no such entry") if found is None else _json(200, record_view(found))

        return answer


def tenant_view(accounts: Accounts, name: str) -> dict[str, object]:
    """One tenant as JSON."""
    balance = accounts.balances[account_of(name)]
    return {"tenant": name, "balance_milli": balance, "standing": accounts.standing_of(name)}


def record_view(record: JournalRecord) -> dict[str, object]:
    """One entry as JSON."""
    return {
        "number": record.number,
        "key": record.key,
        "at_ms": record.at_ms,
        "cause": record.cause,
        "payer": record.payer,
        "payee": record.payee,
        "milli": record.milli,
        "evidence": dict(record.evidence),
        "explanation": entry_of(record).explanation,
    }


def entry_of(record: JournalRecord) -> CreditEntry:
    """The entry that was stored."""
    cause = EntryCause(record.cause)
    return CreditEntry(record.key, record.at_ms, cause, record.payer, record.payee, record.milli, record.evidence)


def _number(query: Mapping[str, Sequence[str]], name: str, otherwise: int) -> int:
    given = query.get(name, ())
    if not given:
        return otherwise
    if not (given[0].isascii() and given[0].isdigit() and len(given[0]) < 19):
        raise InvalidInput(name, given[0], "a number")
    return int(given[0])


def _json(status: int, value: object) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode(value) + b"\n", JSON)


def _error(status: int, text: str) -> HttpAnswer:
    return _json(status, {"error": text})
