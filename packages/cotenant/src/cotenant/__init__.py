"""Cotenant: latency-critical services and best-effort work on shared machines, while the services' objectives hold.

The floors, lowest first: model, policy, engine, drivers, services, cli. Each imports only from floors below it, and
none from cotenant_local or cotenant_lab. Not here: modules beside `__main__`; each belongs to a floor. The map is
docs/architecture.md.
"""

__version__ = "0.1.0"
