"""Reading a configuration file as a whole: nothing of one that has an error is used.

Keys that are written twice are refused, as kube-scheduler does. Profiles become placement profiles that score as
kube-scheduler v1.36 does; the first is the process's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.pod.by_scheduler import IgnoredResources, PodsOfScheduler
from cotenant.model.cluster.extender import Extender
from cotenant.model.document import parse
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.scheduler_config import forms
from cotenant.services.scheduler_config.extenders import read_extenders
from cotenant.services.scheduler_config.plugin_args import ArgumentReader
from cotenant.services.scheduler_config.plugin_sets import choose
from cotenant.services.scheduler_config.settings import ConfigSetting, SettingVerdicts

GROUP = "kubescheduler.config.k8s.io"
KIND = "KubeSchedulerConfiguration"
MAX_BYTES = 4 << 20
_DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class NamedProfile:
    """What pods of a scheduler name have."""

    profile: PlacementProfile
    pods: PodsOfScheduler


@dataclass(frozen=True, slots=True)
class Backoffs:
    """Of pods that found no node."""

    first_s: float = 1.0
    max_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What the file says of the API server and the Lease; None = nothing."""

    kubeconfig: Path | None = None
    qps: float | None = None
    burst: float | None = None
    leader_elect: bool | None = None
    lease_s: float | None = None
    renew_deadline_s: float | None = None
    retry_s: float | None = None
    lease_namespace: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """A file that was read."""

    profiles: dict[str, NamedProfile]  # by scheduler name
    backoff: Backoffs
    connection: ConnectionSettings
    extenders: tuple[Extender, ...]
    volumes_within_s: float | None  # None = as usual
    settings: tuple[ConfigSetting, ...]


def read_config(file: Path, flag: str = "--config") -> SchedulerConfig:
    """The configuration in a file. Raises `InvalidInput` with the file and the field."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise InvalidInput(flag, str(file), "a readable file", error.strerror or "") from None
    return parse_config(text, str(file))


def parse_config(text: bytes, name: str) -> SchedulerConfig:
    """The configuration in a text; `name` stands before the field in errors. Raises `InvalidInput`."""
    if len(text) > MAX_BYTES:
        raise InvalidInput(name, f"{len(text)} bytes", f"at most {MAX_BYTES} bytes")
    given = parse(text, name)
    try:
        return convert_config(given)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.field}", error.value, error.expected, error.hint) from None


def convert_config(given: object) -> SchedulerConfig:
    """The configuration in a document. Raises `InvalidInput` with the field's path."""
    if not isinstance(given, dict):
        raise InvalidInput("document", type(given).__name__, f"a {KIND}")
    version = str(given.get("apiVersion") or "")
    if version != f"{GROUP}/v1":
        hint = ""
        if version.startswith(f"{GROUP}/v1beta"):
            hint = "Kubernetes 1.29 removed the last beta; most fields of v1beta3 are the same in v1"
        raise InvalidInput("apiVersion", version, f"{GROUP}/v1", hint)
    if given.get("kind") != KIND:
        raise InvalidInput("kind", str(given.get("kind") or ""), KIND)
    written = forms.read_form(forms.SchedulerConfiguration, given, "", KIND)
    settings = SettingVerdicts()
    extenders, ignored = read_extenders(written.extenders, settings)
    profiles, volumes_within_s = _profiles(written, ignored, settings)
    backoff = _backoff(written, settings)
    connection = _connection(written, settings)
    _unused(written, given, settings)
    return SchedulerConfig(profiles, backoff, connection, extenders, volumes_within_s, settings.all())


def _profiles(
    written: forms.SchedulerConfiguration, ignored: frozenset[str], settings: SettingVerdicts
) -> tuple[dict[str, NamedProfile], float | None]:
    found: dict[str, NamedProfile] = {}
    within: dict[str, float] = {}
    listed = written.profiles or (forms.SchedulerProfile(),)
    _percent("percentageOfNodesToScore", written.percentage_of_nodes_to_score)
    if written.percentage_of_nodes_to_score is not None:
        settings.honoured("percentageOfNodesToScore")
    for i, entry in enumerate(listed):
        path = f"profiles[{i}]"
        name = entry.scheduler_name or (_DEFAULT_SCHEDULER if len(listed) == 1 else "")
        if not name:
            raise InvalidInput(f"{path}.schedulerName", "", "a name, where there are several profiles")
        if name in found:
            raise InvalidInput(f"{path}.schedulerName", name, "each name once")
        if entry.plugins.queue_sort != listed[0].plugins.queue_sort:
            raise InvalidInput(f"{path}.plugins.queueSort", "another", "the same in all profiles")
        _percent(f"{path}.percentageOfNodesToScore", entry.percentage_of_nodes_to_score)
        if entry.scheduler_name:
            settings.honoured(f"{path}.schedulerName")
        if entry.percentage_of_nodes_to_score is not None:
            settings.honoured(f"{path}.percentageOfNodesToScore")
        chosen = choose(entry.plugins, f"{path}.plugins", settings)
        args = ArgumentReader(entry.plugin_config, f"{path}.pluginConfig", settings).read(chosen.weights)
        own_pct = entry.percentage_of_nodes_to_score
        pct = written.percentage_of_nodes_to_score if own_pct is None else own_pct
        profile = PlacementProfile(
            name=f"kube-scheduler/{name}",
            summary="of a kube-scheduler's configuration",
            samples_nodes=True,
            sample_pct=pct or 0,
            default_spread=args.is_spread_by_system,
            kube=args.scoring,
        )
        pods = PodsOfScheduler(
            scored_by="" if i == 0 else profile.name,
            spread_replicas=args.is_spread_by_system,
            constraints=args.constraints,
            added_affinity=args.added_affinity,
            ignored=IgnoredResources(args.ignored.names | ignored, args.ignored.groups),
            preempts=chosen.preempts,
            unfiltered=chosen.unfiltered,
        )
        found[name] = NamedProfile(profile, pods)
        if args.bind_timeout_s is not None:
            within[name] = args.bind_timeout_s
    if len(set(within.values())) > 1:
        raise InvalidInput(
            "profiles: bindTimeoutSeconds", ", ".join(f"{n}: {s:g}" for n, s in within.items()), "the same in all"
        )
    return found, next(iter(within.values()), None)


def _percent(path: str, value: int | None) -> None:
    if value is not None and not 0 <= value <= 100:
        raise InvalidInput(path, value, "0 to 100")


def _backoff(written: forms.SchedulerConfiguration, settings: SettingVerdicts) -> Backoffs:
    first, most = written.pod_initial_backoff_seconds, written.pod_max_backoff_seconds
    if first is not None:
        settings.honoured("podInitialBackoffSeconds")
        if first <= 0:
            raise InvalidInput("podInitialBackoffSeconds", first, "above 0")
    found = Backoffs(1.0 if first is None else float(first), 10.0 if most is None else float(most))
    if most is not None:
        settings.honoured("podMaxBackoffSeconds")
    if found.max_s < found.first_s:
        raise InvalidInput("podMaxBackoffSeconds", f"{found.max_s:g}", f"podInitialBackoffSeconds ({first}) or more")
    return found


def _connection(written: forms.SchedulerConfiguration, settings: SettingVerdicts) -> ConnectionSettings:
    election, client = written.leader_election, written.client_connection
    times: dict[str, float | None] = {}
    for field, text in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        times[field] = None if text is None else duration_s(text, f"leaderElection.{field}")
        if text is not None:
            settings.honoured(f"leaderElection.{field}")
    if election.resource_lock not in ("", "leases"):
        raise InvalidInput("leaderElection.resourceLock", election.resource_lock, "leases")
    if election.resource_name:
        why = "the Lease has the name of the first scheduler name, with -scheduler"
        settings.not_supported("leaderElection.resourceName", why)
    if election.leader_elect is not None:
        settings.honoured("leaderElection.leaderElect")
    if election.resource_namespace:
        settings.honoured("leaderElection.resourceNamespace")
    if client.burst < 0:
        raise InvalidInput("clientConnection.burst", client.burst, "0 or more")
    for field, value in (("kubeconfig", client.kubeconfig), ("qps", client.qps), ("burst", client.burst)):
        if value:
            settings.honoured(f"clientConnection.{field}")
    for field, value in (("contentType", client.content_type), ("acceptContentTypes", client.accept_content_types)):
        if value:
            settings.irrelevant(f"clientConnection.{field}", "objects are read and written as JSON")
    return ConnectionSettings(
        kubeconfig=Path(client.kubeconfig) if client.kubeconfig else None,
        qps=(client.qps if client.qps > 0 else float("inf")) if client.qps else None,
        burst=float(client.burst) if client.burst else None,
        leader_elect=election.leader_elect,
        lease_s=times["leaseDuration"],
        renew_deadline_s=times["renewDeadline"],
        retry_s=times["retryPeriod"],
        lease_namespace=election.resource_namespace or None,
    )


def _unused(written: forms.SchedulerConfiguration, given: dict[Any, Any], settings: SettingVerdicts) -> None:
    if written.parallelism is not None:
        if written.parallelism <= 0:
            raise InvalidInput("parallelism", written.parallelism, "above 0")
        settings.irrelevant("parallelism", "nodes are judged by compiled code on one core")
    for field in ("enableProfiling", "enableContentionProfiling"):
        if field in given:
            settings.irrelevant(field, "there are no Go profiles; `make profile` measures decisions")
    if written.delay_cache_until_active:
        why = "a replica that does not lead keeps the cluster in memory, so that it takes over at once"
        settings.not_supported("delayCacheUntilActive", why)
