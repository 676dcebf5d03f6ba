"""Which agent has what is no container's guid, a pod or the log of one that is gone: all are asked, once a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.logs import FindLogs, FoundLogs
from cotenant.model.fleet.pods import FIND, FindPods, FoundPods, PodName, is_pod_name
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.states import AgentState
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.rpc import call

_AT_ONCE = 64
_FIND_S = 2.0
_KNOWN_FOR_S = 60.0
_MAX_KNOWN = 1000
_FIND_LOGS = "find-logs"


class Searching:
    """Of one controller."""

    def __init__(self, controller: FleetController) -> None:
        self._controller = controller
        self._known: dict[
            tuple[str, str, str], tuple[str, str, float]
        ] = {}  # what was asked -> agent, name there, when

    async def agent_with_log(self, name: str) -> str:
        """Raises `NoSuchGuid`, `InvalidInput` where several have one."""
        return (await self._searched(_FIND_LOGS, name, f"no host of this fleet has a log of {name}"))[0]

    async def pod(self, text: str, session: str = "") -> tuple[str, str]:
        """The agent of a running pod's node, and the pod's name with its namespace. With a `session`, those of that
        terminal, also where the pod is gone. Raises as `agent_with_log`.
        """
        if "/" not in text and not is_pod_name(text):
            raise NoSuchGuid(f"no container has the guid {text}")
        name = PodName.read("guid", text)
        if session:
            return await self._searched(FIND, _asked_for(name), "this terminal is not there any more", session)
        without = f"no container has the guid {text}, and no host's terminals reach a pod of this name"
        if name.namespace:
            without = f"no host's terminals reach a pod {name.namespace}/{name.pod}"
        agent, full = await self._searched(FIND, _asked_for(name), without)
        return agent, f"{full}/{name.container}" if name.container else full

    def forget_pod(self, text: str) -> bool:
        """Look for it anew the next time; whether it was known."""
        if not is_pod_name(text):
            return False
        return self._known.pop((FIND, _asked_for(PodName.read("guid", text)), ""), None) is not None

    async def _searched(self, verb: str, name: str, without: str, session: str = "") -> tuple[str, str]:
        found, now_s = self._known.get((verb, name, session)), self._controller.now()
        if found is not None and now_s - found[2] < _KNOWN_FOR_S:
            return found[:2]
        having = await self._asked(verb, name, session)
        if not having:
            raise NoSuchGuid(without)
        if len(having) > 1:
            known = ", ".join(f"{agent} ({full})" if verb == FIND else agent for agent, full in having)
            what = "a pod" if verb == FIND else "a log"
            raise InvalidInput("guid", name, "NAMESPACE/NAME", f"{known} have {what} of this name")
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known[verb, name, session] = (*having[0], now_s)
        return having[0]

    async def _asked(self, verb: str, name: str, session: str) -> list[tuple[str, str]]:
        """Agents, with the name by which each has it."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(agent: str) -> Iterable[str]:
            async with limit:
                subject = f"guid.{agent}.rpc.{verb}"
                try:
                    if verb == FIND:
                        asked = FindPods(name, session)
                        return (await call(self._controller.bus, subject, asked, FoundPods, _FIND_S)).names
                    logs = await call(self._controller.bus, subject, FindLogs(name), FoundLogs, _FIND_S)
                    return (name,) if logs.names else ()
                except CotenantError:
                    return ()

        agents = [
            host.registration.guid
            for host in self._controller.registry.hosts()
            if host.state is AgentState.ALIVE and verb in host.registration.capabilities
        ]
        answers = await asyncio.gather(*(ask(agent) for agent in agents))
        return [(agent, full) for agent, names in zip(agents, answers, strict=True) for full in names]


def _asked_for(name: PodName) -> str:
    return f"{name.namespace}/{name.pod}" if name.namespace else name.pod
