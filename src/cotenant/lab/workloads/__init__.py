"""Workloads: what schedulers are offered, and what is true of it."""
