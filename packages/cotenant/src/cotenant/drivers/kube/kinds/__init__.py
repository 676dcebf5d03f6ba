"""Kubernetes objects as the model's values, and back: one module a kind, with its struct, its place in the API, and its
reading and writing.

Belongs here: reading and writing the fields of objects; pods in `pod/`, custom kinds with their definitions in
`custom/`. Not here: requests (drivers/kube/client) or any judgement.
"""
