"""The time-slice of a card as a knob: how long each process has the multiprocessors before the next one's turn.

NVML has no function for it; NVIDIA's DRA driver for Kubernetes runs `nvidia-smi compute-policy`, and so does this. What
that program lists is read before it is set, and put back exactly. Where its list is not understood, or a card has none,
nothing is set. It holds for every process of the card, whoever it belongs to.
Limits: some tenths of a second a command, seconds where the driver is loaded for it (`nvidia-smi -pm 1` keeps it), so
that a reading counts for some seconds; cards of Volta and later with driver 455 and later, as NVIDIA says; how long
each slice is, nobody says.

Source: `nvidia-smi compute-policy --help` (0 default, 1 short, 2 medium, 3 long).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from time import monotonic

from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished
from cotenant.model.machine.knob_values import TIME_SLICES, canonical

PROGRAM = "nvidia-smi"
_TIMEOUT_S = 20.0
_AGE_S = 10.0
_MAX_SAID = 200
_LISTED = re.compile(rf"time\W?slice\b[^\n]*?\b({'|'.join(TIME_SLICES)}|[0-3])\b", re.IGNORECASE)
_UNABLE = ("not supported", "unsupported", "not recognized", "invalid combination", "unknown option")
_ABSENT = ("no devices were found", "not found", "is lost", "invalid device")


class TimeSlices:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity for `Knob.GPU_TIMESLICE`."""

    def __init__(self, program: str = PROGRAM, clock: Callable[[], float] = monotonic) -> None:
        self._program, self._clock = program, clock
        self._known: dict[str, tuple[float, str]] = {}  # what stands, by card

    def supported(self, knob: Knob) -> Gap | None:
        """Whether there is the program at all."""
        try:
            self._run("--help")
        except Unsupported as error:
            return Gap(str(knob), error.needs)
        except (Permanent, Transient):
            return None
        return None

    def read(self, target: KnobTarget) -> str:
        """What stands, not older than some seconds."""
        known = self._known.get(target.group)
        if known is not None and 0 <= self._clock() - known[0] < _AGE_S:
            return known[1]
        said = self._asked(target, "--list")
        listed = {word.lower() for word in _LISTED.findall(said)}
        if len(listed) != 1:
            needs = f"an {PROGRAM} whose list of compute policies is understood (it says {said[:_MAX_SAID]!r})"
            raise Unsupported(str(target), needs)
        word = listed.pop()
        value = TIME_SLICES[int(word)] if word.isdecimal() else word
        self._known[target.group] = self._clock(), value
        return value

    def raw(self, target: KnobTarget) -> str:
        """The same."""
        return self.read(target)

    def write(self, target: KnobTarget, value: str) -> None:
        """Set it for all processes of the card."""
        number = TIME_SLICES.index(canonical(Knob.GPU_TIMESLICE, value))
        self._known.pop(target.group, None)
        self._asked(target, "--set-timeslice", str(number))

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As `write`."""
        self.write(target, raw)

    def identity(self, target: KnobTarget) -> str:
        """The card's UUID; whether it is there is asked with each reading."""
        return target.group

    def _asked(self, target: KnobTarget, *option: str) -> str:
        status, said = self._run("compute-policy", "-i", target.group, *option)
        text = said.lower()
        short = " ".join(said.split())[:_MAX_SAID]
        if any(words in text for words in _UNABLE):
            raise Unsupported(str(target), f"a card and driver with time-slices ({short})")
        if "permission" in text:
            raise Permanent(f"{target} may not be written: root with CAP_SYS_ADMIN sets it ({short})")
        if status != 0:
            if any(words in text for words in _ABSENT):
                raise Vanished(f"{target}: {short}")
            raise Transient(f"{target}: {PROGRAM} failed with status {status}: {short}")
        return said

    def _run(self, *arguments: str) -> tuple[int, str]:
        try:
            found = subprocess.run(
                [self._program, *arguments], text=True, errors="replace", capture_output=True, timeout=_TIMEOUT_S,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Unsupported("time-slices of GPUs", f"{PROGRAM}, of NVIDIA's driver") from error
        except subprocess.TimeoutExpired as error:
            raise Transient(f"{PROGRAM} did not answer within {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise Permanent(f"{self._program}: {error.strerror}") from error
        return found.returncode, (found.stdout + found.stderr).strip()
