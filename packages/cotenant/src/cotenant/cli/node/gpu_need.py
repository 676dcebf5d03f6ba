"""`cotenant node gpu-need`: readings of GPUs over time into the annotation that placement reads."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.cli.node.gpu_culprit import read_samples
from cotenant.model.devices.card_need import GPU_NEED, format_card_need
from cotenant.model.errors import InvalidInput
from cotenant.policy.interference.measured_need import MIN_READINGS, measured_need

_MOST_CARDS = 64


def need(file: Path, pod: str, cards: int, as_json: bool) -> int:
    """Print what the pod takes of each of its cards. Raises `InvalidInput`."""
    if not 1 <= cards <= _MOST_CARDS:
        raise InvalidInput("--cards", cards, f"1 to {_MOST_CARDS}")
    found = measured_need(read_samples(file), pod, cards)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        return 0
    print(f"{GPU_NEED}: '{format_card_need(found.need)}'")
    for what, readings in (("multiprocessors", found.of_sm), ("memory bandwidth", found.of_bandwidth)):
        if readings < MIN_READINGS:
            tables.print_folded(f"not known: {what} ({readings} readings, {MIN_READINGS} are needed)")
    return 0
