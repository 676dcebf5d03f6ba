"""Options that several commands have, as types: one name, one meaning, one help text.

Belongs here: an option of three commands or more. Not here: defaults, which each command states, and options whose help differs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON object and nothing else.")]

# of a cluster's processes
Kubeconfig = Annotated[
    Path | None, Parameter(help="Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.")
]
Context = Annotated[str, Parameter(help="Default: the file's current context.")]
LeaseNamespace = Annotated[str, Parameter(help="Namespace of the Lease; default: the kubeconfig's namespace.")]
IdentityFolder = Annotated[
    str | None,
    Parameter(
        help="Folder of this replica's identity, by which it leads again at once after a crash; empty: none is kept. Default: $STATE_DIRECTORY, else ~/.local/state/cotenant."
    ),
]
WorkloadKinds = Annotated[
    Path | None,
    Parameter(help="Folder of YAML files that declare further kinds of workloads, beside those of the package."),
]
TlsCert = Annotated[
    Path | None,
    Parameter(help="Certificate chain of that server, as PEM; read again when it changes. Default: plain HTTP."),
]
TlsKey = Annotated[Path | None, Parameter(help="Its key.")]
OtlpTracesTokenFile = Annotated[Path | None, Parameter(help="File with the receiver's bearer token.")]
OtlpTracesCa = Annotated[
    Path | None, Parameter(help="Certificate authority of the receiver's certificate, as PEM. Default: the system's.")
]
LogLevel = Annotated[str, Parameter(help="debug, info, warning or error.")]
LogFormat = Annotated[str, Parameter(help="text, or json: one object a line.")]
