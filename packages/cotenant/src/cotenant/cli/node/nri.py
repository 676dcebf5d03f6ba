"""`cotenant nri`: the runtime hook of a node.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.services.nri.nri_arguments import NriArguments, check
from cotenant.services.options import GIVEN


def nri(*, request: Annotated[NriArguments, GIVEN] = NriArguments()) -> int:
    """Give containers their first values when the container runtime creates them, through its plugin interface (NRI).

    A best-effort container starts with its weight, quota and memory limit; on request also with CPUs, devices and
    names. Without this process, or when it fails, containers start as the runtime was told. Exit status: 0 after
    SIGTERM or Ctrl-C, 2 bad input, 1 where this machine lacks something required.
    """
    check(request)
    from cotenant.services.nri import main

    return main.run(request)
