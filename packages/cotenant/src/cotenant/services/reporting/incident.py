"""The report of an incident of interference, from a node's agent to the process that books credit.

Both sides must agree on names and bounds. One structure that both use; a report without its optional fields is short.
Limits: one incident a request.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from cotenant.policy.credit.pricing import CauseVerdict

PATH = "/credit/v1/incidents"
MAX_BYTES = 16_384
LONGEST_KEY = 200
_NAME = r"^[A-Za-z0-9._:-]+$"
_POD = r"^[A-Za-z0-9._-]+/[A-Za-z0-9._:-]+$"

_Tenant = Annotated[str, msgspec.Meta(max_length=253, pattern=_NAME)]
_Pod = Annotated[str, msgspec.Meta(max_length=320, pattern=_POD)]


class IncidentBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of an incident's report. `harm_milli_core_hours`: what the victim lost. Two tenants, or two pods by
    namespace/name.
    """

    key: Annotated[str, msgspec.Meta(max_length=LONGEST_KEY, pattern=_NAME)]
    at_ms: int
    harm_milli_core_hours: int
    confidence_permille: int
    culprit: _Tenant | None = None
    victim: _Tenant | None = None
    culprit_pod: _Pod | None = None
    victim_pod: _Pod | None = None
    verdict: CauseVerdict = CauseVerdict.ATTRIBUTED
    objective_missed: bool = False
    evidence: dict[str, int | str] = {}
