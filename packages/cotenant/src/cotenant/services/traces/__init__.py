"""`cotenant traces`: the process that receives spans and answers questions about services and their requests.

Belongs here: the receiver's HTTP side, its pages, metrics and the client of the pages. Not here: the protocol
(drivers/otlp) and what spans become (engine/traces).
"""
