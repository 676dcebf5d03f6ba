"""Accelerators of one machine: NVIDIA GPUs through NVML, and their place on the PCI bus.

Belongs here: reading of devices, their memory and topology. Not here: allocation (policy/placement/devices), or the
Device object that reports them (services/agent/reports).
"""
