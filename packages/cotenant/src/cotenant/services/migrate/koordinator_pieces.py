"""Each piece of an installed Koordinator: what becomes of it here, and where the guide has the rest.

A setting that cannot be read is `not supported` with field, value and what was expected, by the same code that would
read it here; a name that nobody here knows is `unknown`. Nothing is left out in silence.
Limits: of plugin arguments only those of load-aware scheduling are read field by field; of others, the fields that have
an equal here become options, and each further one is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import yaml  # type: ignore[import-untyped]

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.printable import printable
from cotenant.policy.overcommit.node_slo import PARTS, read_part
from cotenant.policy.overcommit.strategy import KEY as COLOCATION
from cotenant.policy.overcommit.strategy import read_config
from cotenant.services.migrate.installed import Installed
from cotenant.services.migrate.protocol import (
    CONFIG_KEYS,
    DOMAIN,
    KINDS,
    LABELS,
    PLUGINS,
    KnownName,
    MigrationVerdict,
)
from cotenant.services.scheduler_config.forms import ARGS
from cotenant.services.scheduling.load_aware import parse_settings

MANAGER_CONFIG = "slo-controller-config"
SCHEDULER_CONFIG = "koord-scheduler-config"
DESCHEDULER_CONFIG = "koord-descheduler-config"
_SCHEDULER_KIND, _DESCHEDULER_KIND = "KubeSchedulerConfiguration", "DeschedulerConfiguration"
_PARTS = {part.key: part for part in PARTS}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class MigrationPiece:
    """One piece: a setting, a kind or a name in use."""

    what: str
    verdict: MigrationVerdict
    found: int  # how many objects have it
    guide: str  # a page of docs/guide
    words: str = ""


@dataclass(frozen=True, slots=True)
class JudgedInstallation:
    """Everything that was found, and what of it sets up ours."""

    pieces: tuple[MigrationPiece, ...]
    unread: tuple[str, ...]
    scheduler_names: tuple[str, ...] = ()  # of pods in use and of the configuration
    options: tuple[str, ...] = ()  # of `cotenant scheduler`
    load_aware: JsonMapping | None = None
    manager_config: Mapping[str, str] = field(default_factory=dict)
    descheduler: str = ""  # the configuration, as it was written


def judge(installed: Installed) -> JudgedInstallation:
    """Judge what is installed."""
    judging = _Judging()
    for obj in installed.objects:
        judging.take(obj)
    return judging.done(installed.unread)


class _Judging:
    def __init__(self) -> None:
        self._pieces: dict[tuple[str, MigrationVerdict, str], MigrationPiece] = {}
        self._names: Counter[str] = Counter()
        self._selected: set[str] = set()  # labels by which profiles select
        self._schedulers: dict[str, None] = {}
        self._options: dict[str, None] = {}
        self._load_aware: JsonMapping | None = None
        self._manager: dict[str, str] = {}
        self._descheduler = ""

    def done(self, unread: tuple[str, ...]) -> JudgedInstallation:
        for name, count in sorted(self._names.items()):
            known = LABELS.get(name) or (_SELECTED if name in self._selected else _UNREAD)
            self._add(name, known, count)
        return JudgedInstallation(
            tuple(self._pieces.values()),
            unread,
            tuple(self._schedulers),
            tuple(self._options),
            self._load_aware,
            self._manager,
            self._descheduler,
        )

    def take(self, obj: JsonMapping) -> None:
        group, slash, _ = str(obj["apiVersion"]).partition("/")
        group, kind = (group if slash else ""), str(obj["kind"])
        metadata = _mapping(obj.get("metadata"))
        name = str(metadata.get("name") or "")
        self._names.update(_names_of(metadata))
        spec = _mapping(obj.get("spec"))
        template = _mapping(spec.get("template"))
        self._names.update(_names_of(_mapping(template.get("metadata"))))
        for pod in (spec, _mapping(template.get("spec"))):
            scheduler = pod.get("schedulerName")
            if isinstance(scheduler, str) and scheduler.startswith("koord"):
                self._schedulers[scheduler] = None
        if (group, kind) == ("", "ConfigMap"):
            self._config_map(name, _mapping(obj.get("data")))
        elif kind == _SCHEDULER_KIND:
            self._scheduler(obj, kind)
        elif kind == _DESCHEDULER_KIND:
            self._rebalancer(yaml.safe_dump(dict(obj), sort_keys=False), kind)
        elif (group, kind) in KINDS:
            if kind == _PROFILE:
                for selector in ("selector", "namespaceSelector"):
                    self._selected.update(_keys_of(_mapping(spec.get(selector))))
            self._add(f"{kind} objects", KINDS[group, kind], 1)
        elif group.endswith(DOMAIN):
            self._add(
                f"{kind} objects ({group})",
                KnownName(MigrationVerdict.UNKNOWN, "README.md", "no such kind is read here"),
                1,
            )

    def _add(self, what: str, known: KnownName, count: int = 1) -> None:
        key = what, known.verdict, known.words
        before = self._pieces.get(key)
        found = count if before is None else before.found + count
        self._pieces[key] = MigrationPiece(printable(what), known.verdict, found, known.guide, printable(known.words))

    # ---- ConfigMaps

    def _config_map(self, name: str, data: JsonMapping) -> None:
        if name == MANAGER_CONFIG:
            for key, text in data.items():
                self._manager_key(str(key), text)
            return
        for key, text in data.items():
            where = f"{name}: {key}"
            if name == DESCHEDULER_CONFIG or _says(text, _DESCHEDULER_KIND):
                self._rebalancer(str(text), where)
            elif name == SCHEDULER_CONFIG or _says(text, _SCHEDULER_KIND):
                self._scheduler_text(str(text), where)

    def _scheduler_text(self, text: str, where: str) -> None:
        try:
            document = yaml.load(text, Loader=yaml.CSafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
            self._refused(where, "scheduler-config.md", " ".join(str(error).split())[:200])
            return
        if isinstance(document, dict):
            self._scheduler(document, where)
        else:
            self._refused(where, "scheduler-config.md", f"expected a {_SCHEDULER_KIND}")

    def _manager_key(self, key: str, text: object) -> None:
        what = f"{MANAGER_CONFIG}: {key}"
        known = CONFIG_KEYS.get(key)
        if known is None:
            self._add(what, KnownName(MigrationVerdict.UNKNOWN, "manager.md", "the manager does not read this key"))
            return
        if not isinstance(text, str):
            self._refused(what, known.guide, f"{type(text).__name__}: expected text with JSON")
            return
        try:
            if key == COLOCATION:
                ignored = read_config(text).ignored
                for words in ignored:
                    self._refused(what, known.guide, words)
            elif key in _PARTS:
                read_part(_PARTS[key], text)
        except InvalidInput as error:
            self._refused(what, known.guide, str(error))
            return
        self._manager[key] = text
        self._add(what, known)

    def _refused(self, what: str, guide: str, words: str) -> None:
        self._add(what, KnownName(MigrationVerdict.NOT_SUPPORTED, guide, words))

    def _rebalancer(self, text: str, where: str) -> None:
        self._descheduler = text
        words = "`cotenant rebalancer --config` reads it and names what it does not honour; begin with dryRun"
        self._add(where, KnownName(MigrationVerdict.DIFFERS, "rebalancer.md", words))

    # ---- the scheduler's configuration

    def _scheduler(self, document: JsonMapping, where: str) -> None:
        profiles = document.get("profiles")
        if not isinstance(profiles, list):
            self._refused(where, "scheduler-config.md", f"profiles: {type(profiles).__name__}: expected a list")
            return
        rest = [key for key in document if key not in ("apiVersion", "kind", "profiles", "leaderElection")]
        for key in rest:
            self._refused(f"{where}: {key}", "scheduler-config.md", "set by options of cotenant scheduler")
        for i, profile in enumerate(profiles):
            at = f"{where}: profiles[{i}]"
            if not isinstance(profile, dict):
                self._refused(at, "scheduler-config.md", f"{type(profile).__name__}: expected a profile")
                continue
            name = profile.get("schedulerName") or "default-scheduler"
            self._schedulers[str(name)] = None
            points: dict[str, list[str]] = {}
            for plugin, point in sorted(_enabled(_mapping(profile.get("plugins")))):
                points.setdefault(plugin, []).append(point)
            for plugin, at_points in points.items():
                unknown = KnownName(
                    MigrationVerdict.UNKNOWN, "scheduler-config.md", "no such plugin here; --plugin adds one"
                )
                known = PLUGINS.get(plugin) or (_UPSTREAM if plugin in _KUBE else unknown)
                where_in = at_points[0] if len(at_points) == 1 else f"{len(at_points)} points"
                self._add(f"plugin {plugin} ({where_in})", known)
            configs = profile.get("pluginConfig")
            for entry in configs if isinstance(configs, list) else ():
                config = _mapping(entry)
                self._arguments(str(config.get("name") or ""), _mapping(config.get("args")))

    def _arguments(self, plugin: str, args: JsonMapping) -> None:
        if plugin == "LoadAwareScheduling":
            self._load(args)
            return
        if plugin in ARGS:
            self._add(f"arguments of {plugin}", _BY_CONFIG)
            return
        for key, value in args.items():
            if key in ("apiVersion", "kind"):
                continue
            what = f"{plugin}.{key}"
            guide = PLUGINS[plugin].guide if plugin in PLUGINS else "scheduler-config.md"
            option = _option(plugin, key, value)
            if option is None:
                self._refused(what, guide, f"{_shown(value)}: no such setting here")
            else:
                if option:
                    self._options[option] = None
                self._add(what, KnownName(MigrationVerdict.SUPPORTED, guide, option or "as it is here by default"))

    def _load(self, args: JsonMapping) -> None:
        written = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
        usable: JsonObject = {}
        for key, value in written.items():
            what = f"LoadAwareScheduling.{key}"
            try:
                parse_settings(msgspec.json.encode({key: value}), "args")
            except (InvalidInput, TypeError, msgspec.MsgspecError) as error:
                is_unknown = "unknown field" in str(error)
                words = f"{_shown(value)}: no such setting here" if is_unknown else str(error)
                self._refused(what, "load-aware.md", words)
                continue
            usable[str(key)] = value
            self._add(what, KnownName(MigrationVerdict.SUPPORTED, "load-aware.md"))
        self._load_aware = usable


_PROFILE = "ClusterColocationProfile"
_BY_CONFIG = KnownName(
    MigrationVerdict.DIFFERS,
    "scheduler-config.md",
    "`cotenant scheduler --config` reads them and names what it does not apply",
)
_SELECTED = KnownName(MigrationVerdict.SUPPORTED, "webhook.md", "a label of your own: a profile selects by it")
_UNREAD = KnownName(MigrationVerdict.UNKNOWN, "README.md", "not read by any process here")
_KUBE = frozenset(
    (
        *("SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"),
        *("NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
        *("PodTopologySpread", "InterPodAffinity", "DefaultPreemption", "NodeResourcesBalancedAllocation"),
        *("ImageLocality", "DefaultBinder", "DynamicResources"),
    )
)
_STRATEGIES = {"LeastAllocated": "--device-strategy=default", "MostAllocated": "--device-strategy=binpack"}
_UPSTREAM = KnownName(MigrationVerdict.SUPPORTED, "scheduler-config.md", "kube-scheduler's")


def _option(plugin: str, key: str, value: object) -> str | None:
    """The option of `cotenant scheduler` for an argument; "" where it is so by default, None where there is none."""
    if plugin == "ElasticQuota" and key == "delayEvictTime":
        seconds = _seconds(value)
        return None if seconds is None else f"--quota-revoke-after-s={seconds:g}"
    if plugin == "ElasticQuota" and key == "monitorAllQuotas" and isinstance(value, bool):
        return "--quota-revoke" if value else "--no-quota-revoke"
    if plugin == "ElasticQuota" and key == "enableCheckParentQuota" and isinstance(value, bool):
        return "--quota-check-parents" if value else ""
    if plugin == "Coscheduling" and key == "defaultTimeout":
        return "" if _seconds(value) == 600.0 else None
    if plugin == "DeviceShare" and key == "scoringStrategy":
        return _STRATEGIES.get(str(_mapping(value).get("type")))
    return None


def _seconds(value: object) -> float | None:
    """A duration as metav1 writes it, with one unit; None for anything else."""
    text = str(value)
    number, unit = text[:-1], text[-1:]
    if unit not in _SECONDS or not (number.isascii() and number.isdecimal() and len(number) < 9):
        return None
    return int(number) * _SECONDS[unit]


def _enabled(plugins: JsonMapping) -> Iterator[tuple[str, str]]:
    for point, sets in plugins.items():
        enabled = _mapping(sets).get("enabled")
        for entry in enabled if isinstance(enabled, list) else ():
            name = _mapping(entry).get("name")
            if isinstance(name, str) and name:
                yield name, str(point)


def _names_of(metadata: JsonMapping) -> Iterator[str]:
    for field_name in ("labels", "annotations"):
        for name in _mapping(metadata.get(field_name)):
            if isinstance(name, str) and name.partition("/")[0].endswith(DOMAIN):
                yield name


def _keys_of(selector: JsonMapping) -> Iterator[str]:
    """The labels that a selector reads."""
    yield from map(str, _mapping(selector.get("matchLabels")))
    terms = selector.get("matchExpressions")
    for term in terms if isinstance(terms, list) else ():
        yield str(_mapping(term).get("key") or "")


def _says(text: object, kind: str) -> bool:
    """Whether a text of a ConfigMap, under whatever name it was installed, is of this kind."""
    return isinstance(text, str) and f"kind: {kind}" in text


def _mapping(value: object) -> JsonMapping:
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
