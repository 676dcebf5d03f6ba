"""What a person asks of `cotenant manager`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.shared_use import place_of_predictions
from cotenant.services.certificates.bundle import parse_bundle
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.logs import check_logging
from cotenant.services.options import (
    COMMON,
    LISTENING,
    NOT_AN_OPTION,
    OBSERVED,
    WORK,
    Context,
    IdentityFolder,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    OtlpTracesCa,
    OtlpTracesTokenFile,
    SealCertificate,
    TlsCert,
    TlsKey,
)


@dataclass(frozen=True, slots=True)
class ManagerArguments:
    """The command's arguments."""

    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    listen: Annotated[str, Parameter(help="HOST:PORT of metrics and health; port 0: any.", group=COMMON)] = (
        "127.0.0.1:10263"
    )
    config_name: Annotated[str, Parameter(help="Name of the ConfigMap.", group=COMMON)] = "slo-controller-config"
    leader_elect: Annotated[
        bool, Parameter(help="Compete with other replicas for a Lease before writing.", group=COMMON)
    ] = True
    writes_per_s: Annotated[float, Parameter(help="Maximum objects written per second.", group=COMMON)] = 50.0
    right_sizing: Annotated[bool, Parameter(help="Size containers by RightSizings too, in place.", group=WORK)] = False
    history_dir: Annotated[
        Path | None,
        Parameter(
            help="Folder of this replica for what nodes used by the hour, four weeks of it, by which "
            "`cpuCalculatePolicy: predicted` lends after a restart too. Default: none is kept.",
            group=WORK,
        ),
    ] = None
    share_predictions: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of a ConfigMap for what was learned of nodes with the label cotenant.io/shared-use, "
            "and for what other clusters learned (`cotenant federate join --predictions`). Default: none is shared.",
            group=WORK,
        ),
    ] = ""
    context: Context = ""
    config_namespace: Annotated[str, Parameter(help="Namespace of the ConfigMap.", group=WORK)] = "koordinator-system"
    seal_certificate: SealCertificate = None
    lease_namespace: LeaseNamespace = ""
    state_dir: IdentityFolder = None
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    tls_service: Annotated[
        str,
        Parameter(
            help=(
                "Instead: serve TLS with a certificate that the manager makes and renews for this Service, in the "
                "Secret SERVICE-tls."
            ),
            group=LISTENING,
        ),
    ] = ""
    certificates_for: Annotated[
        tuple[str, ...],
        Parameter(
            help=(
                "Make and renew the certificate of this Service too, in the Secret SERVICE-tls of the Lease's "
                "namespace; may be repeated."
            ),
            group=LISTENING,
        ),
    ] = ()
    authorities_in: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of a ConfigMap that gets the authorities of these certificates (ca.crt).",
            group=LISTENING,
        ),
    ] = ""
    otlp_traces: Annotated[
        str,
        Parameter(
            help=(
                "URL of an OTLP/HTTP receiver, such as `cotenant traces` (http://127.0.0.1:4318): a trace for "
                "each write. Default: none."
            ),
            group=OBSERVED,
        ),
    ] = ""
    otlp_traces_token_file: OtlpTracesTokenFile = None
    otlp_traces_ca: OtlpTracesCa = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    election: Annotated[Timing, NOT_AN_OPTION] = field(default_factory=Timing)


def check(request: ManagerArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    if not (request.writes_per_s > 0 and isfinite(request.writes_per_s)):
        raise InvalidInput("--writes-per-s", request.writes_per_s, "a number above 0")
    for option, name in (("--config-namespace", request.config_namespace), ("--config-name", request.config_name)):
        if not name or "/" in name:
            raise InvalidInput(option, name, "a name")
    place_of_predictions("--share-predictions", request.share_predictions)
    check_lease_namespace(request.lease_namespace)
    if request.tls_service and request.tls_cert is not None:
        raise InvalidInput("--tls-service", request.tls_service, "not together with --tls-cert", "made here, or given")
    check_logging(request.log_level, request.log_format)
    bundle = parse_bundle(request.authorities_in, "--authorities-in")
    if bundle is not None and not (request.certificates_for or request.tls_service):
        raise InvalidInput("--authorities-in", request.authorities_in, "--certificates-for or --tls-service beside it")
    span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca)
    return address
