"""Simulated nodes: thousands of kubelets in one process, and the world in which their pods use CPU, memory and each other's patience."""
