"""The admission webhook of a cluster: AdmissionReviews over TLS, its certificates and their injection.

Belongs here: requests and answers, watches, certificates, metrics.
Not here: reviews themselves (services/reviewing), the rules (`policy/admission`, `policy/quota`), the server
(`drivers/http`), and how an API server calls webhooks (`cotenant_local/apiserver/admission`).
"""
