"""TokenReview of authentication.k8s.io: the API server's word on whose a bearer token is.

Source: Kubernetes API reference, v1.36; the extra field with the node's name is that of tokens bound to a pod,
Kubernetes 1.30 and later.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta

NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"


class TokenUser(ApiStruct, frozen=True):
    """The user of a token. `extra`: further claims, each with its values."""

    username: Text = None
    extra: dict[str, list[str] | None] | None = None


class TokenReviewSpec(ApiStruct, frozen=True):
    """The question. No audiences = the API server's own."""

    token: Text = None
    audiences: list[str] | None = None


class TokenReviewStatus(ApiStruct, frozen=True):
    """The answer. `audiences`: those of the token among the ones asked for."""

    authenticated: bool | None = None
    user: TokenUser | None = None
    audiences: list[str] | None = None
    error: Text = None


class TokenReview(ApiStruct, frozen=True):
    """authentication.k8s.io/v1 TokenReview: created, never stored."""

    api_version: str = "authentication.k8s.io/v1"
    kind: str = "TokenReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: TokenReviewSpec | None = None
    status: TokenReviewStatus | None = None


TOKEN_REVIEWS = Kind("TokenReview", "authentication.k8s.io", "v1", "tokenreviews", False, TokenReview)
