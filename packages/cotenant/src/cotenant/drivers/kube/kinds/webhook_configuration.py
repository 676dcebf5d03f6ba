"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration, as far as a webhook keeps its own.

Limits: only names and how the webhooks are reached are decoded; what is written goes as a whole list or as a JSON
patch.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta

GROUP = "admissionregistration.k8s.io"


class WebhookService(ApiStruct, frozen=True):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""
    path: Text = None
    port: int | None = None


class WebhookClient(ApiStruct, frozen=True):
    """How a webhook is reached."""

    url: Text = None
    service: WebhookService | None = None
    ca_bundle: Text = None


class WebhookEntry(ApiStruct, frozen=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: WebhookClient = WebhookClient()


class WebhookConfiguration(ApiStruct, frozen=True):
    """A configuration of either kind."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[WebhookEntry, ...] | None = None


MUTATING = Kind(
    "MutatingWebhookConfiguration", GROUP, "v1", "mutatingwebhookconfigurations", False, WebhookConfiguration
)
VALIDATING = Kind(
    "ValidatingWebhookConfiguration", GROUP, "v1", "validatingwebhookconfigurations", False, WebhookConfiguration
)
