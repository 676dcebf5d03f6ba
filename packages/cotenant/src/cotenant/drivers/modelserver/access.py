"""How a model server behind TLS is reached: an authority and a name of its own, and a bearer token.

Both files are read again when they have changed, as mounted Secrets are replaced in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ScrapeAccess:
    """How a server is reached. `ca_file` None: the machine's own authorities; `server_name`: in its certificate, where
    that is not its address.
    """

    ca_file: Path | None = None
    token_file: Path | None = None
    server_name: str = ""

    def token(self) -> str:
        """The token now; empty without a file. Raises `InvalidInput`."""
        if self.token_file is None:
            return ""
        try:
            found = self.token_file.read_bytes().strip()
        except OSError as error:
            raise InvalidInput("tokenFile", str(self.token_file), "a readable file", error.strerror or "") from None
        if not found or any(not 33 <= byte <= 126 for byte in found):
            raise InvalidInput("tokenFile", str(self.token_file), "a bearer token: one line of printable characters")
        return found.decode()


PLAIN = ScrapeAccess()
