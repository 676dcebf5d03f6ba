"""Cotenant: latency-critical services and best-effort work on shared machines, while the services' objectives hold.

The floors, lowest first: model, policy, engine, lab beside drivers, local, services, cli. Each imports only from floors below it.
Not here: modules beside `__main__`; each belongs to a floor. The map is docs/architecture.md.
"""

__version__ = "0.1.0"
