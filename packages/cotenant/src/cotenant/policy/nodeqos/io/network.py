"""Network QoS: two traffic classes on the host's uplink, so that services do not queue behind best effort.

A full uplink delays every packet of a service, and TCP shares by flow, not by importance. Two classes on the uplink.
Services may use all of it; best effort has a small guarantee and a ceiling. The ceiling is Heracles' rule, what
services leave less a margin for their growth: link - services - max(5 % of link, 10 % of services). Where the services'
traffic is unknown, the configured ceiling applies, in Koordinator's notation: a percentage, or bits per second as a
quantity (`50M`).
Limits: egress only; the link's speed must be configured; the services' traffic is the host's less best effort's.

Source: Heracles (ISCA'15) section 4.3; Koordinator, apis/slo (network settings).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.model.quantities import whole
from cotenant.policy.nodeqos.available import available
from cotenant.policy.nodeqos.percentages import check_percent
from cotenant.policy.nodeqos.wording import rate

RULE = "network-qos"
_STEPS = 100  # per link speed: smaller changes are not written
SERVICES, BEST_EFFORT = "ls", "be"  # the classes of a device; a target's group is `DEVICE/CLASS`


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Off without a device and its speed. Shares are a percentage of the link (int) or bits per second (text, e.g.
    `50M`).
    """

    device: str = ""
    link_bits: int = 0  # bits per second
    best_effort_least: int | str = 1
    best_effort_most: int | str = 100
    follow_services: bool = True
    margin_link_percent: int = 5
    margin_services_percent: int = 10

    def __post_init__(self) -> None:
        if self.link_bits < 0 or (self.device and self.link_bits == 0):
            raise InvalidInput("network link_bits", self.link_bits, "bits per second above 0", "set the uplink's speed")
        if "/" in self.device or self.device in (".", ".."):
            raise InvalidInput("network device", self.device, "the name of a network device")
        check_percent("network margin of the link", self.margin_link_percent, 0, 100)
        check_percent("network margin of services", self.margin_services_percent, 0)
        if self.device:
            least = share("best_effort_least", self.best_effort_least, self.link_bits)
            most = share("best_effort_most", self.best_effort_most, self.link_bits)
            if least > most:
                raise InvalidInput("network best_effort_least", self.best_effort_least, "at most best_effort_most")


@dataclass(frozen=True, slots=True)
class NetworkMemory:
    """No state between calls: the ceiling follows the services' traffic directly."""


def decide(state: NodeState, config: NetworkConfig, memory: NetworkMemory) -> tuple[PolicyVerdict, NetworkMemory]:
    """The rates of both classes of the uplink."""
    if not config.device:
        return PolicyVerdict((Reason(RULE, "no uplink is configured"),)), memory
    link = config.link_bits
    least = share("best_effort_least", config.best_effort_least, link)
    most = share("best_effort_most", config.best_effort_most, link)
    sent = _services_bits(state)
    if config.follow_services and sent is not None:
        margin = max(link * config.margin_link_percent // 100, sent * config.margin_services_percent // 100)
        left = link - sent - margin
        step = max(1, link // _STEPS)
        ceiling = min(most, max(least, left // step * step))
        text = f"best effort may send {rate(ceiling)} = {rate(link)} - {rate(sent)} services - {rate(margin)} margin"
        terms = [
            DecisionTerm("link", link, "bit/s"),
            DecisionTerm("services", -sent, "bit/s"),
            DecisionTerm("margin", -margin, "bit/s"),
        ]
        if ceiling != left:
            text += f", in steps, within {rate(least)} to {rate(most)}"
            terms.append(DecisionTerm("steps and bounds", ceiling - left, "bit/s"))
        reason = Reason(RULE, text, tuple(terms))
    else:
        ceiling = most
        why = "the services' traffic is not known" if config.follow_services else "by configuration"
        reason = Reason(RULE, f"best effort may send {rate(most)}: {why}", (DecisionTerm("most", most, "bit/s"),))
    services = Reason(
        RULE,
        f"services are guaranteed {rate(link - least)} and may use the whole link",
        (DecisionTerm("link", link, "bit/s"), DecisionTerm("best effort's guarantee", -least, "bit/s")),
    )
    desired = (
        SetKnob(KnobTarget(f"{config.device}/{SERVICES}", Knob.RATE), f"{max(1, link - least)} {link}", services),
        SetKnob(KnobTarget(f"{config.device}/{BEST_EFFORT}", Knob.RATE), f"{least} {ceiling}", reason),
    )
    knobs, lacking = available(state, RULE, desired)
    return PolicyVerdict((reason, services, *lacking), knobs), memory


def share(field: str, written: int | str, link_bits: int) -> int:
    """Bits per second of a share in Koordinator's notation, 1 to the link's. `InvalidInput` where it is neither
    percent nor rate.
    """
    if isinstance(written, int):
        check_percent(f"network {field}", written, 0, 100)
        bits = link_bits * written // 100
    else:
        bits = whole(written, f"network {field}")
        if bits < 0:
            raise InvalidInput(f"network {field}", written, "0 or more bits per second")
    return min(max(1, bits), link_bits)


def _services_bits(state: NodeState) -> int | None:
    """Bits per second sent by services and the system; None = unknown."""
    host = state.host.network_sent_bps
    best_effort = state.best_effort.network_sent_bps if state.best_effort is not None else None
    return None if host is None or best_effort is None else max(0, host - best_effort) * 8
