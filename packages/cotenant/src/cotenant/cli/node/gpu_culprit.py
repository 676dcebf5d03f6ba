"""`cotenant node gpus --append` and `cotenant node gpu-culprit`: readings of GPUs over time, and a verdict.

A culprit takes tens of readings with the service's latency at each, and every installation has both elsewhere: so a
reading is one line of a file, appended where somebody runs the command in a loop, and judged later and anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.drivers.gpu.places import place_of
from cotenant.drivers.gpu.recorded_values import MAX_BYTES
from cotenant.engine.node.card_use import card_sample
from cotenant.model.devices.card_sample import CardSample
from cotenant.model.devices.gpu_use import GpuHolder, GpuUse
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.policy.interference.cards import CardCause, CardSettings, who_disturbs
from cotenant.services.clients.agent import AgentClient

_MOST_LEVEL = 1000.0


def pod_names(agent: str) -> Mapping[str, str]:
    """Names of this node's pods by UID, as its agent has them; none where no agent answers."""
    try:
        pods = AgentClient(agent).get("/v1/state").get("pods")
    except CotenantError:
        return {}
    rows = pods if isinstance(pods, list) else []
    return {row["uid"]: row["pod"] for row in rows if isinstance(row, dict) and row.get("uid") and row.get("pod")}


def append(
    file: Path,
    service: str,
    level: float | None,
    uses: Sequence[GpuUse],
    pods: Mapping[int, GpuHolder],
    of_this_machine: bool,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add one reading. `level`: the service's latency over its objective. Raises `InvalidInput`."""
    if not service:
        raise InvalidInput("--append", str(file), "--service NAMESPACE/POD with it")
    if level is None or not 0 <= level <= _MOST_LEVEL:
        shown = "nothing" if level is None else level
        raise InvalidInput("--level", shown, f"the service's latency over its objective, 0 to {_MOST_LEVEL:g}")
    roots = (lambda bus: place_of(bus)[1]) if of_this_machine else (lambda bus: None)
    sample = card_sample(service, uses, pods, roots, round(1000 * wall()), round(1000 * level))
    try:
        with file.open("ab") as open_file:
            open_file.write(msgspec.json.encode(sample) + b"\n")
    except OSError as error:
        raise InvalidInput("--append", str(file), f"a file that can be written ({error.strerror})") from None


def culprit(file: Path, service: str, as_json: bool) -> int:
    """Judge the readings of a file. 0: a pod is named, or there is no trouble; 3: neither. Raises `InvalidInput`."""
    samples = read_samples(file)
    verdict = who_disturbs(service, samples, CardSettings())
    status = 0 if verdict.cause in (CardCause.POD, CardCause.NO_TROUBLE) else 3
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(verdict)).decode())
        return status
    tables.print_folded(verdict.text)
    if verdict.candidates:
        headings = ("pod", "path", "share of the excess", "before", "during")
        rows = [
            (one.pod, one.path.value, f"{one.share_permille / 10:.0f} %", f"{one.calm}", f"{one.bad}")
            for one in verdict.candidates[:8]
        ]
        print()
        tables.print_words(headings, rows)
    for gap in verdict.gaps:
        tables.print_folded(f"not measured: {gap}")
    return status


def read_samples(file: Path) -> list[CardSample]:
    """The readings of a file by time. Raises `InvalidInput`."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidInput("FILE", f"{file.stat().st_size} bytes", f"at most {MAX_BYTES}")
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput("FILE", str(file), f"a file that can be read ({error.strerror})") from None
    found: list[CardSample] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=CardSample))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"line {number}", str(error)[:80], "a reading, as `node gpus --append` writes it"
            ) from None
    return sorted(found, key=lambda sample: sample.at_ms)
