"""The admission webhook of a cluster: AdmissionReviews over TLS, its certificates and their injection, and the same rules offline.

Belongs here: requests and answers, what the rules need to know of the cluster, certificates, metrics, `cotenant lint`.
Not here: the rules (`policy/admission`, `policy/quota`), the server (`drivers/http`), and how an API server calls webhooks (`cotenant_local/apiserver/admission`).
"""
