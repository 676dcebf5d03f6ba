"""Prometheus metrics: the registry set-up that every process shares, and its text exposition.

Belongs here: what is the same for every registry. Not here: the metrics of one process (its own `metrics.py`).
"""
