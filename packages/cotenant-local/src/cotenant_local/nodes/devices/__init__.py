"""Devices of simulated nodes that claims ask for: a driver that publishes them, and what a kubelet does before a pod
with claims starts.

Not here: the devices of our own Device objects (`accelerators.py`), and who gets a device (the scheduler).
"""
