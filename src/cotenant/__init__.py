"""Cotenant: latency-critical services and best-effort work on shared machines, while the services' objectives hold."""

__version__ = "0.1.0"
