"""Failures of object storage as sentences, from the errors of Hadoop's and Arrow's clients.

Both have the names of S3's errors in their texts, and no fields for them.
"""

from __future__ import annotations

import re

from pipelines.errors import RunError, StorageAway

_FROM_STORAGE = re.compile(r"s3a\.|awssdk|AWS Error|\bS3AFileSystem\b")
_BUCKET = re.compile(r"s3[an]?://([a-z0-9][a-z0-9.-]+)|in bucket '([a-z0-9.-]+)'")
_REFUSALS = (
    (r"NoSuchBucket|UnknownStoreException|NO_SUCH_BUCKET|Bucket \S+ does not exist", "it does not exist"),
    (r"InvalidAccessKeyId|XAdminUserNotFound|INVALID_ACCESS_KEY_ID", "its server does not know the access key"),
    (r"SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH", "its server refuses the secret key"),
    (r"RequestTimeTooSkewed|REQUEST_TIME_TOO_SKEWED", "the clocks of its server and of this service differ too much"),
    (r"ExpiredToken|InvalidToken", "the credential has expired"),
    (r"AccessDenied|ACCESS_DENIED|Forbidden|[Ss]tatus [Cc]ode:? 403", "the credential or its secret key is refused"),
    (r"PermanentRedirect|AuthorizationHeaderMalformed|MovedPermanently", "it is in another region than the credential"),
    (r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a", "Spark was started without the library s3"),
)
_AWAY = re.compile(
    r"Connect(ion)?Exception|Connection (refused|reset)|ConnectTimeout|UnknownHost|SocketTimeout|SocketException"
    r"|NETWORK_CONNECTION|NoHttpResponse|Unable to execute HTTP request|AWSClientIOException|SLOW_DOWN|SlowDown"
    r"|AWSServiceIOException|AWSStatus500Exception|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|Premature end|REQUEST_TIMEOUT"
)


def find_storage_failure(text: str) -> RunError | None:
    """Return the failure of a storage that an error's text describes: StorageAway when the storage did not answer."""
    if not _FROM_STORAGE.search(text):
        return None
    match = _BUCKET.search(text)
    bucket = f"the bucket '{match[1] or match[2]}'" if match else "a bucket"
    for pattern, reason in _REFUSALS:
        if re.search(pattern, text):
            return RunError(f"{bucket} cannot be used: {reason}")
    if _AWAY.search(text):
        return StorageAway(f"{bucket} cannot be reached: its server did not answer, or broke off its answer")
    return None
