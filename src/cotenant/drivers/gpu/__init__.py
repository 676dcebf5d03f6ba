"""Accelerators of one machine: NVIDIA GPUs through NVML, and their place on the PCI bus."""
