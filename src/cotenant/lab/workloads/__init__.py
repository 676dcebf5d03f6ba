"""Workloads: the offers to schedulers, and their true values."""
