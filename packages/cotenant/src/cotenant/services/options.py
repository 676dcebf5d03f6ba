"""Options that several processes have, as types for the fields of their arguments: one name, one meaning, one help
text; and the groups of help pages.

The fields of a process's arguments carry the names, help texts and defaults of its options; the command takes the
arguments as one parameter (`Given`). Belongs here: an option of three processes or more. Not here: defaults, which each
process states, and options whose help differs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

# Groups of a help page, in its order. The first has the five options that matter.
COMMON = Group("Common options", sort_key=0)
WORK = Group("What it does", sort_key=1)
CLUSTER = Group("API server and replicas", sort_key=2)
LISTENING = Group("Addresses, TLS and tokens", sort_key=3)
OBSERVED = Group("Logs and its own traces", sort_key=4)

GIVEN = Parameter(name="*")  # of a parameter whose fields are options
NOT_AN_OPTION = Parameter(parse=False)  # of a field that the command line does not have

Kubeconfig = Annotated[
    Path | None,
    Parameter(help="Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.", group=CLUSTER),
]
Context = Annotated[str, Parameter(help="Default: the file's current context.", group=CLUSTER)]
LeaseNamespace = Annotated[
    str, Parameter(help="Namespace of the Lease; default: the kubeconfig's namespace.", group=CLUSTER)
]
IdentityFolder = Annotated[
    str | None,
    Parameter(
        help=(
            "Folder of this replica's identity, by which it leads again at once after a crash; empty: none is kept. "
            "Default: $STATE_DIRECTORY, else ~/.local/state/cotenant."
        ),
        group=CLUSTER,
    ),
]
WorkloadKinds = Annotated[
    Path | None,
    Parameter(
        help="Folder of YAML files that declare further kinds of workloads, beside those of the package.", group=WORK
    ),
]
SealCertificate = Annotated[
    Path | None,
    Parameter(
        help=(
            "The scheduler's certificate, as PEM: of bound pods, class, quota and tenant count as it stated them. A "
            "file that is not there is none. Default: what is written on pods counts."
        ),
        group=WORK,
    ),
]
TlsCert = Annotated[
    Path | None,
    Parameter(
        help="Certificate chain of that server, as PEM; read again when it changes. Default: plain HTTP.",
        group=LISTENING,
    ),
]
TlsKey = Annotated[Path | None, Parameter(help="Its key.", group=LISTENING)]
OtlpTracesTokenFile = Annotated[Path | None, Parameter(help="File with the receiver's bearer token.", group=OBSERVED)]
OtlpTracesCa = Annotated[
    Path | None,
    Parameter(
        help="Certificate authority of the receiver's certificate, as PEM. Default: the system's.", group=OBSERVED
    ),
]
LogLevel = Annotated[str, Parameter(help="debug, info, warning or error.", group=OBSERVED)]
LogFormat = Annotated[str, Parameter(help="text, or json: one object a line.", group=OBSERVED)]
