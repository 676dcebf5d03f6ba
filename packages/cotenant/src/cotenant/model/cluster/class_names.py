"""The classes that a person may name, each as a QoS class and a priority class of the co-location protocol."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput

CLASSES = {
    "prod": ("LS", "koord-prod"),
    "mid": ("LS", "koord-mid"),
    "batch": ("BE", "koord-batch"),
    "free": ("BE", "koord-free"),
}


def check_class(name: str) -> str:
    """The class, or an empty text. Raises `InvalidInput`."""
    if name and name not in CLASSES:
        raise InvalidInput("--class", name, ", ".join(CLASSES))
    return name
