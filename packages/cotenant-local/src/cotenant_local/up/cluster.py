"""A local cluster: API server, controllers and simulated nodes in this process, scheduler and extender beside it.

A person without a cluster wants one with a single command, and wants its contents back after any kind of end. What
writes most (API server, controllers, nodes) shares one event loop and calls the API in process; the scheduler and the
extender are ordinary clients in processes of their own, the same as in any cluster. Parts start in order of dependency,
and slow ones concurrently.
Limits: one machine; a child that fails to start is retried as long as the cluster is up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from shutil import rmtree
from socket import gethostname

import msgspec

from cotenant.drivers.http.address import Address, AddressUnusable, ListeningSocket, bind
from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.ports import hold_port, port_or_free
from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.kube.kinds.custom.definitions import manifests
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.drivers.seals.making import ensure_pair
from cotenant.drivers.seals.seals import CERTIFICATE_FILE
from cotenant.model.cluster.qos import BANDS
from cotenant.model.errors import InvalidInput
from cotenant.services.clients.scheduler_address import URL_FILE
from cotenant.services.clients.traces_address import URL_FILE as TRACES_URL_FILE
from cotenant.services.credit.opening import FILE
from cotenant_local.apiserver.admission.webhooks import attach
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import RequestTarget
from cotenant_local.apiserver.custom.serving import CustomKinds
from cotenant_local.apiserver.http.app import ApiServerApp
from cotenant_local.apiserver.http.audit import AuditLog
from cotenant_local.apiserver.http.auth import Credentials, kubeconfig
from cotenant_local.apiserver.http.server import ApiServer
from cotenant_local.apiserver.storage.sqlite import Database, DirectoryLock
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.registry import controller_manager
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.nodes.devices.driver import SimulatedDrivers
from cotenant_local.nodes.fleet import NodeFleet, NodeSize
from cotenant_local.nodes.simulated import SimulatedNodes
from cotenant_local.nodes.usage import FleetUsage
from cotenant_local.up.children import Child, stop_all
from cotenant_local.up.config import NODES_FILE, UpConfig
from cotenant_local.up.console import Console
from cotenant_local.up.endpoints import Endpoints
from cotenant_local.up.files import kept_token, last_port, named_files
from cotenant_local.up.lending import config_map
from cotenant_local.up.node_metrics import SimulatedNodeMetrics, period_s
from cotenant_local.up.processes import Processes
from cotenant_local.up.reporter import HttpReporter
from cotenant_local.workloads.submitter import Submitter

_OF_THE_CHART = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "cotenant", "meta.helm.sh/release-namespace": "cotenant-system"},
}
OTLP_GRPC, OTLP_HTTP = 4317, 4318
MAX_MEASURED_ALONE = 200  # nodes whose NodeMetrics are written also where no manager asks for them
READY_S = 120.0  # loading and rehearsing compiled kernels takes seconds, on a busy machine a minute
_log = logging.getLogger(__name__)


class LocalCluster:
    """One cluster. `async with LocalCluster(config) as cluster:`; everything stops at the end of the block, in
    reverse order.
    """

    def __init__(self, config: UpConfig) -> None:
        self.config = config
        self.api: Api
        self.endpoints: Endpoints
        self.children: list[Child] = []
        self.nodes: SimulatedNodes
        self._usage: FleetUsage | None = None
        self.submitter: Submitter | None = None
        self.news: Callable[[], list[str]] = list  # what happened to services since the last call, a line an event
        self._agents_port = 0
        self._stack = AsyncExitStack()
        self._report_token = config.directory / "report-token"

    async def __aenter__(self) -> LocalCluster:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def ready(self) -> None:
        """Wait until everything is ready. Raises `Transient` with the end of the log of what is not."""
        await asyncio.gather(*(child.ready(READY_S) for child in self.children))

    async def troubles(self) -> dict[str, str]:
        """What is wrong now, by part; empty = nothing."""
        said = await asyncio.gather(*(child.standing() for child in self.children))
        found = {child.spec.name: why for child, why in zip(self.children, said, strict=True) if why}
        return {"API server": self.api.store.trouble, **found} if self.api.store.trouble else found

    async def _start(self) -> None:
        directory = self.config.directory
        database = self._open_directory()
        store = Store(database)
        self._stack.push_async_callback(store.close)
        self.api = assemble(store, taints_new_nodes=not self.config.is_bare)
        await self.api.bootstrap()
        kinds = CustomKinds(self.api)
        self.api.admission.append(kinds)
        await kinds.start()
        self._stack.push_async_callback(kinds.stop)
        if not self.config.is_bare:
            await self._define()
        webhooks = attach(self.api)
        self._stack.push_async_callback(webhooks.close)
        with named_files(directory):
            token = kept_token(directory / "token")
            server, ca_pem = self._server(token)
        self._app.metrics.read_ignored_webhooks(lambda: webhooks.ignored)
        await server.start()
        self._stack.push_async_callback(server.stop)
        path = directory / "kubeconfig"
        url = _reachable(server.address)
        with named_files(directory):
            write_private(directory / "port", f"{server.address.port}\n")
            write_private(directory / NODES_FILE, f"{self.config.nodes}\n")
            write_private(path, kubeconfig(url, token, ca_pem=ca_pem))
        self.endpoints = Endpoints(url, path)
        if not self.config.is_bare:
            await self._lend()
            await self._start_children()
            await self._start_controllers()
            await self._start_nodes()

    async def _define(self) -> None:
        """Install the custom kinds that the scheduler reads, and the priority classes; what exists stays as it is."""
        resource = self.api.registry.by_kind("apiextensions.k8s.io", "CustomResourceDefinition")
        assert resource is not None
        for _, text in manifests():
            await self._create_missing(RequestTarget(resource), msgspec.yaml.decode(text))
        for band, (lowest, _) in BANDS.items():  # as the chart does, which may be installed here and takes them over
            priority: Manifest = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": band.label, **_OF_THE_CHART},
                "value": lowest,
                "globalDefault": False,
            }
            await self._create_missing(self.api.target("scheduling.k8s.io", "priorityclasses"), priority)

    async def _lend(self) -> None:
        """Write the manager's ConfigMap where there is none."""
        if not self.config.lend:
            return
        config = config_map(self.config.lend)
        name = config["metadata"]["namespace"]
        namespace: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **_OF_THE_CHART}}
        await self._create_missing(self.api.target("", "namespaces"), namespace)
        await self._create_missing(self.api.target("", "configmaps", name), config)

    async def _create_missing(self, target: RequestTarget, manifest: Manifest) -> None:
        try:
            await self.api.create(target, manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _open_directory(self) -> Database | None:
        """Lock the directory and open its database. Raises `InvalidInput` where it cannot be used, `Permanent`
        where its contents cannot be read.
        """
        directory = self.config.directory
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.config.is_ephemeral:
                return Database(directory)
            self._stack.callback(DirectoryLock(directory).release)  # the kubeconfig and the port are written even so
            return None
        except InvalidInput as error:
            raise InvalidInput("--dir", error.value, error.expected, error.hint) from None
        except OSError as error:
            why = error.strerror or str(error)
            raise InvalidInput("--dir", str(directory), "a directory that can be written to", why) from None

    def _server(self, token: str) -> tuple[ApiServer, bytes]:
        audit = None
        if self.config.audit_log is not None:
            audit = AuditLog(self.config.audit_log)
            self._stack.callback(audit.close)
        app = self._app = ApiServerApp(
            self.api, Credentials(token), audit=audit, storage=lambda: self.api.store.trouble
        )
        host, directory = self.config.host, self.config.directory
        # Also on loopback: clients of the Go library send a token over TLS only.
        hosts = tuple(dict.fromkeys((host, "127.0.0.1", "localhost", gethostname())))
        certificates = ensure(directory / "tls", hosts, datetime.now(UTC))
        listening = self._bind(last_port(directory / "port"))
        tls = Tls(certificates.certificate, certificates.key)
        return ApiServer(app, listening, tls=tls), certificates.authority_pem

    def _bind(self, last: int) -> ListeningSocket:
        """The port that was asked for; else the last one, or any where that is in use."""
        host, port = self.config.host, self.config.port
        try:
            return bind(Address(host, port or last))
        except AddressUnusable as error:
            if error.is_foreign:
                raise InvalidInput("--host", host, error.expected, error.hint) from None
            if port:
                raise InvalidInput("--port", port, "a free port", error.hint) from None
            return bind(Address(host, 0))

    async def _start_controllers(self) -> None:
        self._informers = informers = Informers(self.api)
        self._stack.push_async_callback(informers.stop)
        runner = controller_manager(
            informers,
            node_grace_s=self.config.node_grace_s,
            served=self.config.scheduler_names(),
            workload_with_job=self.config.has_workloads,
            uses=lambda pods: self._usage.uses(pods) if self._usage is not None else {},
        )
        await runner.start()
        self._stack.push_async_callback(runner.stop)

    async def _start_nodes(self) -> None:
        config = self.config
        fleet = NodeFleet(config.nodes, NodeSize(gpus=config.gpus_per_node), grace_s=config.node_grace_s)
        ports = (self.endpoints.scheduler_port, self.endpoints.extender_port)
        reporter = HttpReporter([port for port in ports if port], self._report_token)
        self._stack.push_async_callback(reporter.close)
        self.nodes = SimulatedNodes(
            self._informers, fleet, speed=config.speed, reporter=reporter, cpus=config.cpus(), seed=config.seed
        )
        self._usage = FleetUsage(self._informers, self.nodes.kubelets)
        self._app.serve_usage(self._usage)
        await self.nodes.start()
        self._stack.push_async_callback(self.nodes.stop)
        if config.device_shape.drivers:
            drivers = SimulatedDrivers(self._informers, fleet.names(), config.device_shape)
            await drivers.start()
            self._stack.push_async_callback(drivers.stop)
        if config.has_manager or 0 < config.nodes <= MAX_MEASURED_ALONE:
            metrics = SimulatedNodeMetrics(
                self.api,
                self._informers,
                self.nodes.kubelets,
                period_s(config.speed, config.nodes),
                config.speed,
                config.has_manager,
            )
            await metrics.start()
            self._stack.push_async_callback(metrics.stop)
        if config.workload:
            self.submitter = Submitter(
                self._informers,
                config.workload,
                config.nodes,
                fleet.shape,
                seed=config.seed,
                speed=config.speed,
                load=config.load,
                is_lent=bool(config.lend),
            )

    async def submit(self) -> None:
        """Begin to submit the workload, once everything is ready."""
        if self.submitter is not None:
            await self.submitter.start()
            self._stack.push_async_callback(self.submitter.stop)
            if self.config.shows_loop:
                await self._show_loop(self.submitter)

    async def _show_loop(self, submitter: Submitter) -> None:
        """Start what makes simulated nodes measured and acted on, and the neighbour that hurts."""
        from cotenant_local.up.simulated.agents import Addresses
        from cotenant_local.up.simulated.loop import AGENTS, SimulatedLoop  # needs the extra `traces`

        traces = f"http://127.0.0.1:{self.endpoints.otlp_http_port}"
        credit = f"http://127.0.0.1:{self.endpoints.credit_port}" if self.endpoints.credit_port else ""
        at = Addresses(traces, credit, self._agents_port)
        loop = SimulatedLoop(self.api, self._informers, self.nodes.world, at, self.config, submitter.services)
        if self.config.is_ephemeral:
            self._stack.callback(rmtree, self.config.directory / AGENTS, ignore_errors=True)
        await loop.start()
        self.news = loop.news
        self._stack.push_async_callback(loop.stop)

    async def _start_children(self) -> None:
        (self.config.directory / "logs").mkdir(exist_ok=True)
        kept_token(self._report_token)
        seal = self.config.directory / "seal"
        with named_files(self.config.directory):
            ensure_pair(seal, datetime.now(UTC), schedulers=self.config.scheduler_names()[:1])
        if self.config.is_ephemeral:
            self._stack.callback(rmtree, seal, ignore_errors=True)
        make = Processes(self.config, self.endpoints.kubeconfig, self._report_token)
        sealed = ("--seal-certificate", str(seal / CERTIFICATE_FILE))  # who reads pods believes what is signed
        scheduler = self._port()
        asked = (*self.config.scheduler_options(), "--seal", str(seal))
        self.children = [make.client("scheduler", scheduler, *asked)]
        extender = 0
        if self.config.has_extender:
            extender = self._port()
            self.children.append(make.client("extender", extender, *sealed))
        manager = 0
        if self.config.has_manager:
            manager = self._port()
            self.children.append(make.alone("manager", ("manager", *sealed, *self.config.manager_options()), manager))
        rebalancer = 0
        if self.config.has_rebalancer:
            rebalancer = self._port()
            run = ("rebalancer", "run", *sealed, *self.config.rebalancer_options())
            self.children.append(make.alone("rebalancer", run, rebalancer))
        http = grpc = 0
        if self.config.has_traces:
            http, grpc = port_or_free(OTLP_HTTP), port_or_free(OTLP_GRPC)
            self.children.append(make.traces(http, grpc))
        credit = 0
        if self.config.has_credit:
            credit = self._port()
            if self.config.is_ephemeral:
                self._drop_journal()
                self._stack.callback(self._drop_journal)
            self.children.append(make.credit(credit, *sealed))
        console = ""
        if self.config.shows_loop:
            self._agents_port = self._port()
        if self.config.has_console:
            with named_files(self.config.directory):
                beside = Console(
                    self.config.directory,
                    self.endpoints.kubeconfig,
                    self.config.console_port,
                    self.config.log_format,
                    traces=f"http://127.0.0.1:{http}" if http else "",
                    credit=f"http://127.0.0.1:{credit}" if credit else "",
                    agents=f"http://127.0.0.1:{self._agents_port}/{{node}}" if self._agents_port else "",
                    fleet=self.config.fleet,
                    more=sealed,
                )
            self._stack.callback(beside.held.close)
            self.children.append(Child(beside.child()))
            console = beside.link
        self._stack.push_async_callback(stop_all, self.children)
        for child in self.children:
            await child.start()
        self.endpoints = Endpoints(
            self.endpoints.url,
            self.endpoints.kubeconfig,
            scheduler,
            extender,
            manager,
            console,
            otlp_http_port=http,
            otlp_grpc_port=grpc,
            rebalancer_port=rebalancer,
            credit_port=credit,
        )
        url_file = self.config.directory / URL_FILE
        write_private(url_file, f"http://127.0.0.1:{scheduler}\n")
        self._stack.callback(url_file.unlink, missing_ok=True)
        if http:
            traces_file = self.config.directory / TRACES_URL_FILE
            write_private(traces_file, f"http://127.0.0.1:{http}\n")
            self._stack.callback(traces_file.unlink, missing_ok=True)

    def _port(self) -> int:
        """One for a child, which may be killed and started again there."""
        held = hold_port()
        self._stack.callback(held.close)
        return held.port

    def _drop_journal(self) -> None:
        """Remove the credit of tenants that are gone with their cluster."""
        for suffix in ("", "-wal", "-shm"):
            (self.config.directory / f"{FILE}{suffix}").unlink(missing_ok=True)


def _reachable(address: Address) -> str:
    """The URL for clients on this machine: they cannot connect to the wildcard address."""
    host = "127.0.0.1" if address.host in ("0.0.0.0", "::") else address.host
    return f"https://{replace(address, host=host)}"
