"""The client side of `cotenant explain`: reasons from a running scheduler, or from what it left on the API server.

Belongs here: requests and their decoding.
Not here: the pages that answer (services/scheduler/pages), and how answers are shown (cli).
"""
