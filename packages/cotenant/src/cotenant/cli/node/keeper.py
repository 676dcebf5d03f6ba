"""`cotenant keeper`: the process that is allowed to write knobs, and that restores each one.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.services.keeper.keeper_arguments import KeeperArguments, check
from cotenant.services.options import GIVEN


def keeper(*, request: Annotated[KeeperArguments, GIVEN] = KeeperArguments()) -> int:
    """Write knobs for an unprivileged agent under leases: recorded on disk, read back, and restored.

    Knobs left by an earlier keeper are restored before the first request is served. Exit status: 0 after SIGTERM or
    Ctrl-C with everything restored, 1 where something could not be restored, 2 bad input.
    """
    check(request)
    from cotenant.services.keeper import main

    return main.run(request)
