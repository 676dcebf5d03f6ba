"""Measurement of the experiments: latency histograms, windows of undisturbed time, statistics over rounds.

Belongs here: pure computation on samples. Not here: how the samples are taken (loads, site).
"""
