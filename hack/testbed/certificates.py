"""A certificate authority for the cluster, and its certificates: made by openssl, valid for a year."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from .kubeconfig import kubeconfig
from .steps import run

DAYS = "365"


def client_tls(authority: Path | str, certificate: Path | str, key: Path | str) -> ssl.SSLContext:
    """Return the TLS settings of a client; as client-go's they accept a CA without the extensions of RFC 5280.

    The authority below makes such certificates, as some clouds do. Python 3.13 refuses them by default.
    """
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True)
class Authority:
    """Signs for one cluster; everything lies in `folder`."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "ca.crt"

    def make(self) -> None:
        """Make the authority and the key that signs service accounts, unless they are there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / "sa.pub").exists():  # the last thing that is made
            return
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key")
        subject = ("-subj", "/CN=trainshed-bed", "-days", DAYS)
        self._openssl("req", "-x509", "-new", "-key", "ca.key", *subject, "-out", "ca.crt")
        self._openssl("genrsa", "-out", "sa.key", "2048")
        self._openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def sign(self, name: str, user: str, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> None:
        """Make NAME.crt and NAME.key for a user in groups; `hosts` are the names and addresses that it serves."""
        if (self.folder / f"{name}.crt").exists():
            return
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        names = ",".join(f"IP:{host}" if host[0].isdigit() else f"DNS:{host}" for host in hosts)
        extension = self.folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", DAYS)
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-extfile", extension.name, "-out", f"{name}.crt")

    def server_tls(self, name: str) -> ssl.SSLContext:
        """Return the TLS settings of a server with the certificate of this name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return context

    def kubeconfig(self, name: str, server: str) -> Path:
        """A kubeconfig for a user that was signed."""
        file = self.folder / f"{name}.kubeconfig"
        return kubeconfig(file, name, server, self._user(name), authority=self.certificate)

    def _user(self, name: str) -> dict[str, str]:
        return {
            "client-certificate": str(self.folder / f"{name}.crt"),
            "client-key": str(self.folder / f"{name}.key"),
        }

    def _openssl(self, *words: str) -> None:
        run(["openssl", *words], self.folder / "openssl.log", cwd=self.folder)
