"""The scheduler names (`spec.schedulerName` of pods) that one scheduler process serves.

Problem: the first name becomes part of a Lease's name, so a bad one would only fail at the API server, after seconds. Choice: every name is checked as a
DNS subdomain before anything starts, with room for the Lease's suffix. All names have the process's profile (docs/adr/0022). Limits: Leases are held by the first name; two processes with different first names
and a name in common both schedule that name's pods.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.identity import lease_name

FLAG = "--scheduler-name"
DEFAULT_SCHEDULER = "default-scheduler"  # that of pods that name none
LONGEST = 253 - len(lease_name(""))
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def check_names(names: Sequence[str]) -> None:
    """Raise `InvalidInput` with the flag's name for names that cannot be served together."""
    if not names:
        raise InvalidInput(FLAG, "", "at least one name")
    for name in names:
        if len(name) > LONGEST or not _SUBDOMAIN.fullmatch(name):
            if "=" in name:
                raise InvalidInput(
                    FLAG, name, "a name", "all names of a process have its --profile; start another process for another"
                )
            hint = "lower case letters, digits, - and ., such as cotenant"
            raise InvalidInput(FLAG, name, f"a DNS subdomain name of at most {LONGEST} characters", hint)
        if names.count(name) > 1:
            raise InvalidInput(FLAG, name, "each name once")
