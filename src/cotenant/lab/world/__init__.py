"""The world that runs a workload: its laws, events, failures and accounting. It knows nothing about scheduling."""
