"""Prometheus' HTTP API, and what speaks it (Thanos, Mimir, VictoriaMetrics, managed services): use of pods and nodes
over days, as values.

Belongs here: requests and answers, the names and labels by which clusters store the same figures, ranges cut into
parts. Not here: what follows from a history (policy/assess), and metrics of our own processes (drivers/metrics).
"""
