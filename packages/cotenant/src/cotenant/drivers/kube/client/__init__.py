"""The client of an API server: access and credentials, requests, streams, connections, limits, and the meaning of
refusals.

Belongs here: calls on any kind. Not here: the content of objects (drivers/kube/kinds), or keeping objects up to date
(drivers/kube/cache).
"""
