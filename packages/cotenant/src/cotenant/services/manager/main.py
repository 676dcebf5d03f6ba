"""The command `cotenant manager`: arguments are checked, parts joined, signals set up."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.parquet.use_history import UseHistoryFile
from cotenant.drivers.seals.seals import read_seals
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.model.prediction.shared_use import place_of_predictions
from cotenant.services.certificates.bundle import parse_bundle
from cotenant.services.certificates.parts import PartCertificates
from cotenant.services.kube_process.replica import open_replica
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.logs import log_to_stderr
from cotenant.services.manager.manager_arguments import ManagerArguments, check
from cotenant.services.manager.manager_process import COMPONENT, ManagerOptions, ManagerProcess
from cotenant.services.manager.watches import ConfigSource
from cotenant.services.running import run_until_signal


def run(request: ManagerArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    address = check(request)
    bundle = parse_bundle(request.authorities_in, "--authorities-in")
    log_to_stderr(request.log_level, request.log_format)
    access = load_access(request.kubeconfig, request.context)
    options = ManagerOptions(
        listen=address,
        source=ConfigSource(request.config_namespace, request.config_name),
        writes_per_s=request.writes_per_s,
        tls=tls_of(request.tls_cert, request.tls_key),
        seals=read_seals(request.seal_certificate),
        right_sizing=request.right_sizing,
        history=UseHistoryFile(request.history_dir) if request.history_dir is not None else None,
        settings=ManagerSettings(learns_use=request.history_dir is not None or bool(request.share_predictions)),
        predictions=place_of_predictions("--share-predictions", request.share_predictions),
        span_target=span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca),
    )
    replica = open_replica(request, access, address, COMPONENT, request.election)

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            certificates, tls = None, options.tls
            services = tuple(dict.fromkeys(name for name in (request.tls_service, *request.certificates_for) if name))
            if services:
                client = await stack.enter_async_context(
                    Client(access, qps=float("inf"), burst=10, in_flight=4, user_agent=f"{COMPONENT}/certificates")
                )
                certificates = PartCertificates(client, replica.namespace, services, bundle)
            if certificates is not None and request.tls_service:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cotenant-manager-")))
                tls = await certificates.obtain(request.tls_service, folder, stop)
                if tls is None:
                    return  # stopped before there was one
            process = ManagerProcess(
                access,
                replace(options, tls=tls),
                replica.identity,
                replica.elected,
                listening=replica.listening,
                certificates=certificates,
            )
            process.kube.spare_collections()
            await process.run(stop)

    run_until_signal(main)
    return 0
