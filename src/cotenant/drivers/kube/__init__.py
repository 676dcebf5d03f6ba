"""The Kubernetes API: access, a client, list/watch caches, and the translation of its objects into the model's values."""
