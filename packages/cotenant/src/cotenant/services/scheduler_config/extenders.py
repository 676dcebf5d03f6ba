"""Extenders of a configuration file, checked as kube-scheduler checks them, with the contents of their files."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.model.cluster.extender import USUAL_TIMEOUT_S, Extender, ExtenderTls
from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url
from cotenant.services.scheduler_config import forms
from cotenant.services.scheduler_config.settings import SettingVerdicts


def read_extenders(
    written: tuple[forms.ExtenderForm, ...], settings: SettingVerdicts
) -> tuple[tuple[Extender, ...], frozenset[str]]:
    """The extenders, and the resources that only they look at. Raises `InvalidInput`."""
    found: list[Extender] = []
    ignored: set[str] = set()
    managed: set[str] = set()
    for i, entry in enumerate(written):
        path = f"extenders[{i}]"
        for j, resource in enumerate(entry.managed_resources):
            where = f"{path}.managedResources[{j}].name"
            if "/" not in resource.name or resource.name.partition("/")[0].endswith("kubernetes.io"):
                raise InvalidInput(where, resource.name, "the name of an extended resource, such as example.com/card")
            if resource.name in managed:
                raise InvalidInput(where, resource.name, "each resource at one extender")
            managed.add(resource.name)
            if resource.ignored_by_scheduler:
                ignored.add(resource.name)
        found.append(_extender(entry, path, settings))
    binders = [i for i, extender in enumerate(found) if extender.bind_verb]
    if len(binders) > 1:
        raise InvalidInput(f"extenders[{binders[1]}].bindVerb", found[binders[1]].bind_verb, "one extender that binds")
    return tuple(found), frozenset(ignored)


def _extender(written: forms.ExtenderForm, path: str, settings: SettingVerdicts) -> Extender:
    parts = split_url(written.url_prefix)
    if parts is None:
        raise InvalidInput(f"{path}.urlPrefix", written.url_prefix, "http://HOST:PORT/PATH, or https://")
    if written.prioritize_verb and written.weight <= 0:
        raise InvalidInput(f"{path}.weight", written.weight, "above 0, where there is a prioritizeVerb")
    timeout_s = 0.0 if written.http_timeout is None else duration_s(written.http_timeout, f"{path}.httpTimeout")
    tls = _tls(written, parts.scheme, path)
    settings.honoured(path)
    if not written.node_cache_capable:
        why = "nodes are sent with name, labels, taints and allocatable"
        settings.honoured(f"{path}.nodeCacheCapable", why)
    return Extender(
        url=written.url_prefix,
        filter_verb=written.filter_verb,
        prioritize_verb=written.prioritize_verb,
        preempt_verb=written.preempt_verb,
        bind_verb=written.bind_verb,
        weight=written.weight,
        is_ignorable=written.ignorable,
        caches_nodes=written.node_cache_capable,
        managed=frozenset(resource.name for resource in written.managed_resources),
        timeout_s=timeout_s or USUAL_TIMEOUT_S,
        tls=tls,
    )


def _tls(written: forms.ExtenderForm, scheme: str, path: str) -> ExtenderTls | None:
    """The scheme of the URL decides; without authorities its certificate is not checked, as upstream has it where
    enableHTTPS is set.
    """
    config = written.tls_config or forms.TlsConfig()
    if scheme == "http":
        if written.enable_https or written.tls_config is not None:
            raise InvalidInput(f"{path}.urlPrefix", written.url_prefix, "https://, where TLS is configured")
        return None
    where = f"{path}.tlsConfig"
    certificate = _content(config.cert_data, config.cert_file, f"{where}.cert")
    key = _content(config.key_data, config.key_file, f"{where}.key")
    authorities = _content(config.ca_data, config.ca_file, f"{where}.ca")
    if bool(certificate) != bool(key):
        raise InvalidInput(where, "one of certificate and key", "both, or neither")
    insecure = config.insecure or (written.enable_https and not authorities)
    return ExtenderTls(insecure, config.server_name, certificate, key, authorities)


def _content(data: str, file: str, where: str) -> bytes:
    if data:
        try:
            return b64decode(data, validate=True)
        except ValueError:
            raise InvalidInput(f"{where}Data", "its text", "base64") from None
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{where}File", file, "a readable file", error.strerror or "") from None
