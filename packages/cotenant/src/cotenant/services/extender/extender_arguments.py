"""What a person asks of `cotenant extender`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import read_token
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile
from cotenant.services.logs import check_logging
from cotenant.services.options import COMMON, LISTENING, WORK, Context, LogFormat, LogLevel, SealCertificate
from cotenant.services.reporting.accounts import report_user


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """The command's arguments."""

    listen: Annotated[
        str, Parameter(help="HOST:PORT for the extender protocol and reports; port 0: any.", group=COMMON)
    ] = "127.0.0.1:8888"
    profile: Annotated[
        str,
        Parameter(
            help=("founding, founding-ledger, or, with --cluster, any placement profile; an unknown name lists them."),
            group=COMMON,
        ),
    ] = "founding"
    cluster: Annotated[
        bool,
        Parameter(
            negative=(), help="Watch nodes and pods, with the credentials of kubectl or of the pod.", group=COMMON
        ),
    ] = False
    kubeconfig: Annotated[Path | None, Parameter(help="Watch nodes and pods with this kubeconfig.", group=COMMON)] = (
        None
    )
    bind: Annotated[
        bool, Parameter(negative=(), help="Also answer /bind (bindVerb), through the API server.", group=COMMON)
    ] = False
    health_listen: Annotated[
        str,
        Parameter(
            help=(
                "A second HOST:PORT for /healthz, /readyz and /metrics, which requires no client certificate; "
                "with --report-account or --report-token-file it takes reports too."
            ),
            group=LISTENING,
        ),
    ] = ""
    health_tls: Annotated[
        bool,
        Parameter(
            negative=(),
            help="That listener has the certificate of --tls-cert too. Default: it is unencrypted.",
            group=LISTENING,
        ),
    ] = False
    score_max: Annotated[
        int, Parameter(help="Best score sent: 10 is the protocol's; 100 sends the founding score unscaled.", group=WORK)
    ] = 10
    context: Context = ""
    credit: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Consider the debt of a pod's quota (`cotenant credit`) in the founding score; with --cluster.",
            group=WORK,
        ),
    ] = False
    seal_certificate: SealCertificate = None
    tls_cert: Annotated[
        Path | None, Parameter(help="Certificate, PEM; read again when it changes.", group=LISTENING)
    ] = None
    tls_key: Annotated[Path | None, Parameter(help="Its key, PEM, without passphrase.", group=LISTENING)] = None
    client_ca: Annotated[
        Path | None, Parameter(help="CA of the client certificates, which are then required, PEM.", group=LISTENING)
    ] = None
    report_token_file: Annotated[
        Path | None, Parameter(help="File with the bearer token required by POST /metrics/report.", group=LISTENING)
    ] = None
    report_account: Annotated[
        str,
        Parameter(
            help=(
                "NAMESPACE/NAME of the agents' service account: each may report for its own node, by a "
                "TokenReview of its token."
            ),
            group=LISTENING,
        ),
    ] = ""
    insecure: Annotated[
        bool, Parameter(negative=(), help="Listen beyond loopback without client certificates.", group=LISTENING)
    ] = False
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"

    @property
    def has_cluster(self) -> bool:
        """Whether to look for access to an API server at all."""
        return self.cluster or self.kubeconfig is not None or bool(self.context)


FOUNDING, FOUNDING_LEDGER = "founding", "founding-ledger"
FOUNDING_MAX = 100  # of the founding score


def check(settings: ExtenderSettings) -> tuple[Address, Address | None, Tls | None]:
    """Addresses and TLS of the settings. Raises `InvalidInput` for what does not fit together."""
    address = Address.parse("--listen", settings.listen)
    health = Address.parse("--health-listen", settings.health_listen) if settings.health_listen else None
    cert, key = settings.tls_cert, settings.tls_key
    if (cert is None) != (key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(cert or key), "both or neither")
    if settings.client_ca is not None and cert is None:
        raise InvalidInput("--client-ca", str(settings.client_ca), "--tls-cert and --tls-key beside it")
    if settings.health_tls and (cert is None or health is None):
        raise InvalidInput("--health-tls", "alone", "--tls-cert, --tls-key and --health-listen beside it")
    tls = None if cert is None or key is None else Tls(cert, key, settings.client_ca)
    if not address.is_loopback and settings.client_ca is None and not settings.insecure:
        raise InvalidInput(
            "--listen",
            settings.listen,
            "a loopback address, or --tls-cert, --tls-key and --client-ca",
            "anyone who can reach the extender can use it; --insecure says that the network is trusted",
        )
    profile = profile_of(settings.profile).name
    if not 1 <= settings.score_max <= FOUNDING_MAX:
        raise InvalidInput("--score-max", settings.score_max, f"1 to {FOUNDING_MAX}")
    if settings.report_token_file is not None:
        read_token(settings.report_token_file, "--report-token-file")
    needs_cluster = [f"--profile {profile}"] if profile not in (FOUNDING, FOUNDING_LEDGER) else []
    needs_cluster += ["--bind"] if settings.bind else []
    needs_cluster += ["--credit"] if settings.credit else []
    if settings.credit and profile not in (FOUNDING, FOUNDING_LEDGER):
        raise InvalidInput(
            "--credit",
            f"with --profile {profile}",
            f"--profile {FOUNDING} or {FOUNDING_LEDGER}",
            "credit acts on their violation term",
        )
    needs_cluster += ["--report-account"] if report_user(settings.report_account, settings.report_token_file) else []
    if needs_cluster and not settings.has_cluster:
        raise InvalidInput(needs_cluster[0], "alone", "--cluster or --kubeconfig", "it needs access to the API server")
    check_logging(settings.log_level, settings.log_format)
    return address, health, tls


def profile_of(name: str) -> PlacementProfile:
    """The built-in profile of this name. Raises `InvalidInput`."""
    for candidate in PROFILES:
        if candidate.name == name:
            return candidate
    raise InvalidInput("--profile", name, f"one of {', '.join(profile.name for profile in PROFILES)}")
