"""Experiments on containers of this host: delay and loss of packets. Off unless the configuration names it."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.requests import Limit
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.limits import LimitFunction
from cotenant.services.fleet.rpc import RpcVerb


class ExperimentFunction:
    """Implements `Function`. Its leases are those of the function `limits`, which must be on, too."""

    name = "experiments"
    fault = ""

    def __init__(self, limits: LimitFunction) -> None:
        self.verbs: Mapping[str, RpcVerb] = {"experiment": RpcVerb(Limit, limits.experiment)}

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""

    async def start(self) -> None:
        """As the Protocol."""

    async def stop(self) -> None:
        """As the Protocol: what is held ends by its time."""

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
