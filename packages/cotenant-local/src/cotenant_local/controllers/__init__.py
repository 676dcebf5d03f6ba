"""The local cluster's controller manager, a folder for each concern: `runtime`, `views`, `workloads`, `cluster`,
`cleanup`.

At this level: the controller classes, which map events to keys and gather what a rule needs, and the list of all of
them. Not here: the rules themselves (pure functions in the folders), the API server, the nodes.
"""
