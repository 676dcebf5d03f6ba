"""The fleet's processes: an agent on each host, controllers, and both with a bus of their own in one process.

Belongs here: requests and answers over the bus (rpc), what an agent does (agent, functions), what a controller does
(controller), templates of groups. Not here: values (model/fleet), state machines (engine/fleet), NATS and Docker
(drivers).
"""
