"""Talking to an API server: access and credentials, requests, streams, connections, limits, and what refusals mean.

Belongs here: calls on any kind. Not here: what an object says (drivers/kube/kinds), or keeping objects up to date (drivers/kube/cache).
"""
