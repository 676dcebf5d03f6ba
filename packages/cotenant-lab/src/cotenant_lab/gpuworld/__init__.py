"""A node of GPUs: model servers with continuous batching beside offline jobs, under several ways of sharing the cards.

Belongs here: cards and their laws of contention, the servers' queues, requests and jobs as they are drawn, the rules
that share the cards, and their comparison. Not here: nodes of CPUs (cotenant_lab/world), placement on a whole cluster
of GPUs (openb, training), and the policies of the product, which `product.py` only calls.
"""
