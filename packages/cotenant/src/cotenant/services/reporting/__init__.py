"""Node reports: `POST /metrics/report`, the same for the scheduler and the extender, and the client that sends them.

Belongs here: the payload, the endpoint and the sender. Not here: what is done with a report (engine), and HTTP itself
(drivers/http).
"""
