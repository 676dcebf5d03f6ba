"""`POST /credit/v1/incidents`: interference that was attributed, to be booked once.

    201  booked                      400  not an incident, with the field       403  the sender may not report it
    200  nothing to book: known      422  a pod that is not known here          503  not stored: send it again
    already, no harm, one tenant, or too little confidence

Agents on many nodes report, an answer may be lost, and an agent knows pods, not tenants. An incident has a key and is
answered after the commit, so that a sender repeats it under the same key until it is answered. Pods are mapped to
tenants here, by the rules of the scheduler; a pod that left is remembered for an hour. A sender is on this machine, has
the token, or has the token of its node, which may report pods of that node only. A replica that does not lead closes
the connection, so that the next attempt may reach another.
Limits: whether the harm is right cannot be checked here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from cotenant.drivers.http.messages import JSON, HttpAnswer, Receive, Scope, header, read_body
from cotenant.engine.credit.accounts import Accounts, Posting
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.policy.credit.entries import account_of
from cotenant.policy.credit.pricing import CauseVerdict, Interference
from cotenant.services.credit.facts import PodPlace
from cotenant.services.reporting.identity import TokenNodes
from cotenant.services.reporting.incident import MAX_BYTES, IncidentBody
from cotenant.services.routes import CallerGuard

Book = Callable[[Callable[[Accounts], Posting | None]], Awaitable[Posting | None]]


class UnknownPodError(Exception):
    """The pod is not known here; its name is the message."""


class IncidentEndpoint:
    """Answers reports of incidents. `counts`: reports by outcome, for metrics."""

    def __init__(
        self,
        book: Book,
        leads: Callable[[], bool],
        guard: CallerGuard,
        wall_ms: Callable[[], int],
        place_of: Callable[[str], PodPlace | None] = lambda _: None,
        nodes: TokenNodes | None = None,
    ) -> None:
        """`place_of` gives tenant and node of a pod; `nodes` the node of an agent's token."""
        self._book = book
        self._leads = leads
        self._guard = guard
        self._wall_ms = wall_ms
        self._place_of = place_of
        self._nodes = nodes
        self.counts = {"booked": 0, "reversed": 0, "nothing": 0, "refused": 0, "failed": 0}

    async def answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        """The answer to a request. Raises `BodyRefused` and `Disconnected`."""
        outcome, answer = await self._answer(scope, receive)
        self.counts[outcome] += 1
        return answer

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[str, HttpAnswer]:
        node = ""  # of the sender, where its token is a node's
        if not self._guard.admits(scope):
            try:
                node = "" if self._nodes is None else await self._nodes.node_of(header(scope, b"authorization"))
            except Transient as error:
                return "failed", _error(503, str(error))
            if not node:
                return "refused", _error(403, "only callers on this machine, or with a bearer token that may report")
        if scope["method"] != "POST":
            return "refused", _error(405, "only POST")
        body = await read_body(scope, receive, MAX_BYTES)
        if not self._leads():
            return "failed", _error(503, "this replica does not lead, or has not listed the cluster yet", closes=True)
        try:
            fact = self._fact(msgspec.json.decode(body, type=IncidentBody), node)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidInput) as error:
            return "refused", _error(400, str(error))
        except PermissionError as error:
            return "refused", _error(403, str(error))
        except UnknownPodError as unknown:
            return "refused", _error(422, f"the pod {unknown} is not known here")
        if fact is None:
            return "nothing", _said(200, {"booked": False})
        try:
            posting = await self._book(lambda accounts: accounts.interfered(fact, self._wall_ms()))
        except CotenantError as error:
            return "failed", _error(503, f"not stored: {error}")
        outcome = "nothing" if posting is None else "reversed" if fact.verdict is CauseVerdict.CLEARED else "booked"
        return outcome, _said(200 if posting is None else 201, {"booked": posting is not None})

    def _fact(self, given: IncidentBody, node: str) -> Interference | None:
        """The incident between two tenants; None where a pod belongs to none. Raises `InvalidInput`,
        `PermissionError`, `UnknownPodError`.
        """
        culprit = self._tenant("culprit", given.culprit, given.culprit_pod, node)
        victim = self._tenant("victim", given.victim, given.victim_pod, node)
        pods = {"culprit_pod": given.culprit_pod, "victim_pod": given.victim_pod, "node": node}
        evidence = {**given.evidence, **{name: value for name, value in pods.items() if value}}
        fact = Interference(
            given.key,
            given.at_ms,
            culprit,
            victim,
            given.harm_milli_core_hours,
            given.confidence_permille,
            given.objective_missed,
            tuple(sorted(evidence.items())),
            given.verdict,
        )
        if not culprit or not victim:
            return None
        account_of(culprit)
        account_of(victim)
        return fact

    def _tenant(self, field: str, tenant: str | None, pod: str | None, node: str) -> str:
        if (tenant is None) == (pod is None):
            raise InvalidInput(field, tenant or "", f"either {field} or {field}_pod")
        if pod is None:
            if node:
                raise PermissionError(f"with the token of node {node!r}, {field}_pod must be given")
            return tenant or ""
        place = self._place_of(pod)
        if place is None:
            raise UnknownPodError(pod)
        if node and place.node != node:
            raise PermissionError(f"the token is that of node {node!r}, the pod {pod} is not on it")
        return place.tenant


def _said(status: int, value: object, closes: bool = False) -> HttpAnswer:
    more = ((b"connection", b"close"),) if closes else ()
    return HttpAnswer(status, msgspec.json.encode(value) + b"\n", JSON, more)


def _error(status: int, text: str, closes: bool = False) -> HttpAnswer:
    return _said(status, {"error": text}, closes)
