"""The scheduler's debug API: routes, access control, and the pages of the process and of the plugins.

Belongs here: what answers `/apis/v1` and `/debug`, and the flags behind it.
Not here: metrics, health and reports (services/scheduler/http.py).
"""
