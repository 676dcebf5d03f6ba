"""Applications: what a release consists of, and how its objects stand.

Belongs here: names of objects, revisions, amounts of readiness. Not here: what happens next (engine/apps), calls
(drivers/kube, drivers/helm), the commands' order of calls (services/apps).
"""
