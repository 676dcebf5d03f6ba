"""The Kubernetes API: access, a client, list/watch caches, and the translation of its objects into the model's values.

Belongs here: what any program against an API server needs, in the folders client, cache, kinds, leaderelection and
record. Not here: the API server of the local cluster (cotenant_local/apiserver), or what a process does with objects
(services).
"""
