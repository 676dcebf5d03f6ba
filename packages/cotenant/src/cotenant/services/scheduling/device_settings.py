"""`--device-strategy`, `--usual-gpu-pods`, `--only-enforced-gpu-shares`,
`--gpu-neighbours`: the choice of devices, from the command line.

A misspelt strategy that is skipped fills a cluster in the wrong way for weeks, and the strategy that goes by the usual
pods does nothing without them. They are read together, and a combination that makes no sense is refused by the
option's name.
Limits: one strategy for parts of devices and for whole ones.
"""

from __future__ import annotations

import re

from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod

STRATEGY, USUAL = "--device-strategy", "--usual-gpu-pods"
ENFORCED, NEIGHBOURS = "--only-enforced-gpu-shares", "--gpu-neighbours"
_WEIGHT = 6.0  # from 34 points on it is stronger than packing, whose 0 to 100 weigh twice
_FORM = re.compile(r"(\d{1,3})(?:x(\d{1,3}))?(?::(\d{1,9}))?", re.ASCII)


def device_settings(strategy: str, usual: str, only_isolated: bool = False, neighbours: bool = False) -> DeviceSettings:
    """The settings of these options. Raises `InvalidInput` with the option's name."""
    if strategy not in [entry.value for entry in DeviceStrategy]:
        raise InvalidInput(STRATEGY, strategy, "one of " + ", ".join(entry.value for entry in DeviceStrategy))
    known = DeviceStrategy(strategy)
    pods = usual_pods(usual)
    if known is DeviceStrategy.FRAGMENTATION and not pods:
        hint = f"name the pods that usually come, such as {USUAL} 50:6,100:3,100x8:1"
        raise InvalidInput(STRATEGY, strategy, f"{USUAL} beside it", hint)
    if pods and known is not DeviceStrategy.FRAGMENTATION:
        raise InvalidInput(
            USUAL, usual, f"{STRATEGY} {DeviceStrategy.FRAGMENTATION.value} beside it", "no other asks for it"
        )
    weight = _WEIGHT if neighbours else 0.0
    return DeviceSettings(known, known, neighbours=weight, only_isolated=only_isolated, usual=pods)


def usual_pods(text: str) -> tuple[UsualPod, ...]:
    """Pods by percent of each GPU, number of GPUs and weight: `50:6,100:3,100x8:1`. Raises `InvalidInput`."""
    return tuple(_usual_pod(name.strip()) for name in text.split(",")) if text.strip() else ()


def _usual_pod(text: str) -> UsualPod:
    found = _FORM.fullmatch(text)
    percent, gpus, weight = (int(group or 1) for group in found.groups()) if found is not None else (0, 0, 0)
    if not (1 <= percent <= 100 and gpus and weight and (gpus == 1 or percent == 100)):
        expected = "PERCENT, PERCENT:WEIGHT or 100xGPUS:WEIGHT, percent of one GPU from 1 to 100, several GPUs whole"
        raise InvalidInput(USUAL, text, expected, "such as 50:6,100:3,100x8:1")
    return UsualPod(percent, gpus, weight)
