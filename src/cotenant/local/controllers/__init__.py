"""The controllers of the local cluster: what turns a Deployment into pods, and what cleans up after them."""
