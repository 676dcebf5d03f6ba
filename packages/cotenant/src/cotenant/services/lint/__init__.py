"""What the admission webhook would do with manifests, said offline: `cotenant lint`.

Belongs here: manifests with the lines of their fields, and findings. Not here: the rules (`policy/admission`,
`policy/quota`), the webhook itself (`services/webhook`), printing (`cli/cluster`).
"""
