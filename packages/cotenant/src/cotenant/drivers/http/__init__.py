"""The HTTP server that every process of this package listens with.

Here: sockets, limits, time-outs, TLS, bearer tokens, graceful stop, the server's own metrics, and health pages.
Not here: routes and their answers, which belong to the process that serves them, and HTTP clients
(`drivers/kube/client`).
"""
