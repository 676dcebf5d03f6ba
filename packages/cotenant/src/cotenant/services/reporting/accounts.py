"""The service account of agents, as a person names it: apart from what reviews tokens, so that a wrong one is
refused at once.
"""

from __future__ import annotations

import re
from pathlib import Path

from cotenant.model.errors import InvalidInput

_ACCOUNT = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)/([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)")


def parse_account(written: str, field: str = "--report-account") -> str:
    """The user name of a service account that is written NAMESPACE/NAME. Raises `InvalidInput`."""
    found = _ACCOUNT.fullmatch(written)
    if found is None:
        raise InvalidInput(field, written, "NAMESPACE/NAME of a service account", "cotenant-node/cotenant-node")
    return f"system:serviceaccount:{found[1]}:{found[3]}"


def report_user(account: str, token_file: Path | None) -> str:
    """The user of `--report-account`, "" where it is not given. Raises `InvalidInput` for a wrong one, or beside
    `--report-token-file`.
    """
    if not account:
        return ""
    if token_file is not None:
        hint = "agents' own tokens, or one token for all"
        raise InvalidInput("--report-account", account, "not together with --report-token-file", hint)
    return parse_account(account)
