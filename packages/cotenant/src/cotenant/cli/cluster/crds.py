"""`cotenant crds`: the definitions of the custom kinds read by the scheduler."""

from __future__ import annotations


def crds() -> int:
    """Print the definitions of the custom kinds (PodGroup, ElasticQuota, Reservation, Device ...), for `kubectl
    apply -f -`.
    """
    from cotenant.drivers.kube.kinds.custom.definitions import manifests

    print("\n---\n".join(text.strip("\n-") for _, text in manifests()))
    return 0
