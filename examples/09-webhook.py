"""A mutating webhook against the local cluster: pods without a schedulerName of their own get ours.

    python examples/09-webhook.py       # uses kubectl's KUBECONFIG; Ctrl-C removes the configuration
    kubectl run plain --image=example/plain:1 && kubectl get pod plain -o jsonpath='{.spec.schedulerName}'

A certificate for 127.0.0.1 is created, because webhooks are called over TLS only. Demonstration: one thread, no client
authentication.
"""

import base64
import datetime
import http.server
import ipaddress
import json
import ssl
import subprocess
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NAME = "default-to-cotenant.example.com"


class Hook(http.server.BaseHTTPRequestHandler):
    """Answers AdmissionReview requests."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer one review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        answer = {"uid": request["uid"], "allowed": True}
        if request["object"]["spec"].get("schedulerName") in (None, "default-scheduler"):
            patch = [{"op": "add", "path": "/spec/schedulerName", "value": "cotenant"}]
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def certificate(folder: Path) -> tuple[Path, Path, bytes]:
    """A self-signed certificate for 127.0.0.1: its file, its key's file, its PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    (folder / "tls.crt").write_bytes(pem)
    plain, form = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return folder / "tls.crt", folder / "tls.key", pem


def configuration(port: int, authority: bytes) -> dict[str, object]:
    """The webhook configuration: which writes to review, and our address."""
    hook = {
        "name": NAME,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(authority).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "failurePolicy": "Ignore",
        "timeoutSeconds": 2,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [hook],
    }


def main() -> None:
    """Serve until Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder:
        crt, key, pem = certificate(Path(folder))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    manifest = json.dumps(configuration(server.server_address[1], pem))
    subprocess.run(["kubectl", "apply", "-f", "-"], input=manifest, text=True, check=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        subprocess.run(["kubectl", "delete", "mutatingwebhookconfiguration", NAME], check=True)


if __name__ == "__main__":
    main()
