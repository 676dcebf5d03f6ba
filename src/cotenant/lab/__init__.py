"""The simulated world: workloads, contention, experiments and reports. It never sees a driver."""
