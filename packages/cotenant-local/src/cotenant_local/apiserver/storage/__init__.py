"""Storage and watch cache: objects as encoded bytes, the revision counter, SQLite, event history, watches.

It corresponds to kube-apiserver's etcd storage and watch cache. Not here: what an object means; kinds, defaults and
validation are in `kinds` and `schema`.
"""
