"""Options that several commands have, as types: one name, one meaning, one help text. Those of processes are in
services/options.py.

Belongs here: an option of three commands or more. Not here: defaults, which each command states, and options whose help
differs.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON object and nothing else.")]
