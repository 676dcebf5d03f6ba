"""The simulated world of a workload: its laws, events, failures and accounting. It is independent of scheduling."""
