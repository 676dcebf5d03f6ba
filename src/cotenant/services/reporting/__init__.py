"""How nodes' reports come in: `POST /metrics/report`, the same for the scheduler and the extender."""
