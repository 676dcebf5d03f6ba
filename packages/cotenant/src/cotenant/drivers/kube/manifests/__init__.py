"""Manifests as Kubernetes itself treats them: decoding by the published types, and strategic merge patches by their
merge keys.

Belongs here: what a webhook and an API server must do alike; objects stay plain mappings, since their writer owns every
field. Not here: defaults and validation of kinds, other patches and field ownership (the API server of cotenant-local),
and the values that our processes read from objects (drivers/kube/kinds).
"""
