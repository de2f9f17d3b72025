"""Certificates and tokens of a test cluster: an authority, its signatures, and the keys of service accounts."""

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_EXTENSIONS = """[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{alternatives}
"""
"""OpenSSL's configuration, complete, so that nothing depends on the machine's; as strict as VERIFY_X509_STRICT
requires."""


class Authority:
    """Signs the certificates of servers in one test cluster and, as its API server does, service accounts' tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate, self._key = folder / "ca.crt", folder / "ca.key"
        self.account_key = folder / "sa.key"
        self._request("ca", "ca", "fairlane-tests", ())
        _openssl("genrsa", "-out", self.account_key, "2048")

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Certificate and key of a server or client ``name``; ``hosts``: DNS:... and IP:... ."""
        signer = ("-CA", self.certificate, "-CAkey", self._key)
        self._request(name, "leaf", name, hosts, *signer)
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def _request(self, file: str, section: str, name: str, hosts: tuple[str, ...], *signer: str | Path) -> None:
        alternatives = f"subjectAltName = {','.join(hosts)}" if hosts else ""
        config = self.folder / f"{file}.cnf"
        config.write_text(_EXTENSIONS.format(name=name, alternatives=alternatives))
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
        out = ("-keyout", self.folder / f"{file}.key", "-out", self.folder / f"{file}.crt")
        _openssl("req", "-x509", *curve, "-config", config, "-extensions", section, *signer, *out)

    def token(self, claims: Mapping[str, Any]) -> str:
        """A JSON Web Token (RS256, RFC 7515) that the API server accepts as signed by itself."""
        parts = [_base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims)]
        signature = _openssl("dgst", "-sha256", "-sign", self.account_key, stdin=".".join(parts).encode())
        return ".".join([*parts, _base64url(signature)])


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*arguments: str | Path, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *map(str, arguments)], input=stdin, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.decode(errors='replace')}")
    return done.stdout
