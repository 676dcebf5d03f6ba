"""The simulated world: workloads, contention, experiments and reports. It never imports a driver."""
