"""The local API server: storage, verbs and HTTP for ordinary Kubernetes clients (kubectl, client-go, the project's
own).

At this level: `contract` (the values and Protocols that the folders exchange), the resource registry, selectors, and
the assembly of a server. Not here: controllers and nodes, which are clients of `verbs`, and scheduling.
"""
