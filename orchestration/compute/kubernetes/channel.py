"""The channel to a driver's pod: its certificate and token are derived from the service's key, and stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from core.infra.settings import Settings
from core.lifecycle.executions.tokens import derive_channel_seed, derive_channel_token
from driver.host_folder import CERTIFICATE_FILE, HOST_FILE, PORT, HostSpec, TlsSpec
from driver.transport import HostRequest, send_to_pod

# any: every request makes the same certificate again
_FIRST_DAY, _LAST_DAY = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_SERIAL = 1
_SECONDS_PER_MINUTE = 60


def build_channel_files(settings: Settings, pod: str) -> Mapping[str, str]:
    """Return the files by which the pod of this name takes executions from this service."""
    spec = HostSpec(
        executions=settings.drivers.executions,
        idle_seconds=settings.drivers.idle_minutes * _SECONDS_PER_MINUTE,
        tls=TlsSpec(token=derive_channel_token(settings, pod)),
    )
    key = _derive_key(settings, pod).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return {
        HOST_FILE: spec.model_dump_json(by_alias=True),
        CERTIFICATE_FILE: key + build_certificate(settings, pod),
    }


def build_certificate(settings: Settings, pod: str) -> str:
    """Return the certificate of a pod as PEM; it is always the same, since these signatures have no random part."""
    key, name = _derive_key(settings, pod), x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "spindle")])
    public = key.public_key()
    builder = x509.CertificateBuilder(name, name, public, _SERIAL, _FIRST_DAY, _LAST_DAY)
    for extension, is_critical in (
        (x509.SubjectAlternativeName([x509.DNSName(pod)]), True),
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
    ):
        builder = builder.add_extension(extension, is_critical)
    return builder.sign(key, None).public_bytes(Encoding.PEM).decode()


def send_execution(settings: Settings, pod: str, host: str, request: HostRequest, port: int = PORT) -> bool:
    """Give an execution to the pod of this name; return False when it has not accepted it."""
    certificate, token = build_certificate(settings, pod), derive_channel_token(settings, pod)
    return send_to_pod((host, port), pod, certificate, token, request)


def _derive_key(settings: Settings, pod: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(derive_channel_seed(settings, pod))
