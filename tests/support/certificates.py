"""Certificates for tests: self-signed ones, and an authority that Chromium trusts.

Chromium reads trusted authorities from NSS's database in the user's home folder. As NSS can be initialized only once
per process, and Chromium comes without NSS's command, `python -m tests.support.certificates FOLDER CERTIFICATE`
creates the database with one certificate (DER) in a process of its own.
"""

from __future__ import annotations

import ctypes
import ssl
import subprocess
import sys
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.support.servers import Handler, serve

DAY = timedelta(days=1)


def create_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a self-signed certificate for `name` and its key."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.test"]
    command += ["-addext", f"subjectAltName={name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def serve_https(certificate: Path, key: Path) -> AbstractContextManager[str]:
    """Run a server that answers every request with 501."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return serve(Handler, context)


class Authority:
    """A certificate authority that a Chromium with the home folder `home` trusts."""

    def __init__(self, home: Path) -> None:
        self._folder = home
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _make_name("authority.test")
        authority = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._sign(self._name, self._key, authority, datetime.now(UTC) + DAY)
        database, file = home / ".pki" / "nssdb", home / "authority.der"
        database.mkdir(parents=True)
        file.write_bytes(certificate.public_bytes(Encoding.DER))
        subprocess.run([sys.executable, "-m", __name__, str(database), str(file)], check=True)

    def certificate(self, name: x509.GeneralName, until: timedelta) -> tuple[Path, Path]:
        """Write a certificate for `name` that expires `until` from now, after three days of validity, and its key."""
        key, expires = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC) + until
        signed = self._sign(_make_name("shop.test"), key, x509.SubjectAlternativeName([name]), expires)
        certificate, secret = self._folder / "certificate.pem", self._folder / "key.pem"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, secret

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, until: datetime
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        valid = builder.not_valid_before(until - 3 * DAY).not_valid_after(until)
        return valid.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints)).sign(
            self._key, SHA256()
        )


def _make_name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def create_nss_database(database: str, certificate: bytes) -> None:
    """Create an NSS database that trusts the certificate as an authority for servers (nss/lib/certdb/cert.h)."""
    nss, smime, pointer = ctypes.CDLL("libnss3.so"), ctypes.CDLL("libsmime3.so"), ctypes.c_void_p
    for function in (nss.PK11_GetInternalKeySlot, smime.CERT_DecodeCertFromPackage, nss.CERT_GetDefaultCertDB):
        function.restype = pointer
    trusted = (ctypes.c_uint * 3)()
    failed = nss.NSS_InitReadWrite(f"sql:{database}".encode())
    slot = pointer(nss.PK11_GetInternalKeySlot())
    failed = failed or nss.PK11_InitPin(slot, None, b"")
    read = pointer(smime.CERT_DecodeCertFromPackage(certificate, len(certificate)))
    failed = failed or nss.PK11_ImportCert(slot, read, ctypes.c_ulong(0), b"authority", 0)
    failed = failed or nss.CERT_DecodeTrustString(ctypes.byref(trusted), b"C,,")
    if failed or nss.CERT_ChangeCertTrust(pointer(nss.CERT_GetDefaultCertDB()), read, ctypes.byref(trusted)):
        raise SystemExit(f"NSS did not accept the certificate as trusted (error {nss.PORT_GetError()})")


if __name__ == "__main__":
    create_nss_database(sys.argv[1], Path(sys.argv[2]).read_bytes())
