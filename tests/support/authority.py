"""A certificate authority that Chromium trusts: its certificate in NSS's database, in a home folder for the browser.

`python -m tests.support.authority FOLDER CERTIFICATE` puts one (DER) into a new database: NSS can be used
once in a process, and Chromium brings its library along but no program for it.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Authority:
    """Trusted by a Chromium whose home folder is `home`."""

    def __init__(self, home: Path) -> None:
        self._folder = home
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority.test")
        authority = x509.BasicConstraints(ca=True, path_length=None)
        made = self._signed(self._name, self._key, authority, datetime.now(UTC) + DAY)
        database, file = home / ".pki" / "nssdb", home / "authority.der"
        database.mkdir(parents=True)
        file.write_bytes(made.public_bytes(Encoding.DER))
        subprocess.run([sys.executable, "-m", __name__, str(database), str(file)], check=True)

    def certificate(self, name: x509.GeneralName, until: timedelta) -> tuple[Path, Path]:
        """A certificate for `name` that is good until so long from now, for three days in all, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_name("shop.test"), key, x509.SubjectAlternativeName([name]), datetime.now(UTC) + until)
        certificate, secret = self._folder / "certificate.pem", self._folder / "key.pem"
        certificate.write_bytes(made.public_bytes(Encoding.PEM))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, secret

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, until: datetime
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        valid = builder.not_valid_before(until - 3 * DAY).not_valid_after(until)
        return valid.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints)).sign(
            self._key, SHA256()
        )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def trust(database: str, certificate: bytes) -> None:
    """Makes an NSS database that trusts the certificate as an authority for servers (nss/lib/certdb/cert.h)."""
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
        raise SystemExit(f"NSS could not be told to trust a certificate (error {nss.PORT_GetError()})")


if __name__ == "__main__":
    trust(sys.argv[1], Path(sys.argv[2]).read_bytes())
