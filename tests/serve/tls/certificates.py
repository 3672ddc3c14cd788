"""Certificates for tests, made by the command `openssl`."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(folder: Path, *words: str) -> None:
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path

    def replace(self, other: Pair) -> None:
        """Overwrite both files with those of another pair."""
        self.key.write_bytes(other.key.read_bytes())
        self.certificate.write_bytes(other.certificate.read_bytes())


class Authority:
    """An authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.path = folder / f"{name}.pem"
        subject = ("-subj", f"/CN={name}", "-days", "2")
        _openssl(folder, "req", "-x509", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", *subject)

    def issue(self, name: str, san: str, days: int = 2) -> Pair:
        """Sign a certificate with an alternative name; one of -1 days has expired."""
        folder, own = self._folder, Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        _openssl(folder, "req", *_KEY, "-keyout", own.key.name, "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(f"subjectAltName={san}\n")
        signed = ("-CA", self.path.name, "-CAkey", f"{self._name}.key", "-CAcreateserial", "-days", str(days))
        _openssl(
            folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-extfile", f"{name}.ext", "-out", f"{name}.pem"
        )
        return own

    def context(self, own: Pair | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and has a certificate of its own or none."""
        made = ssl.create_default_context(cafile=str(self.path))
        if own is not None:
            made.load_cert_chain(own.certificate, own.key)
        return made
