"""Access to buckets for pipelines without a server: a person's own AWS keys, from the environment or AWS's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pipelines.errors import RunError, summarize_error
from pipelines.filesystem import S3Access, make_user_access, name_bucket_variable
from pipelines.planning.plan import NamedCredential, Plan

_AMAZON = ".amazonaws.com"
_SECONDS = 10
_REASONS = {
    "NoSuchBucket": "there is no such bucket",
    "InvalidAccessKeyId": "the server does not know the access key",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "InvalidToken": "the session token is wrong",
    "ExpiredToken": "the session token has expired",
    "RequestTimeTooSkewed": "the clock of this machine differs too much from the server's",
}


def find_bucket_access(plan: Plan) -> Mapping[str, str]:
    """Return the variables with the access to the buckets that a plan reads and writes; raise RunError.

    A credential that the pipeline names is a profile of AWS's configuration; other buckets have the usual keys. Wrong
    keys and missing buckets are found here, before Spark starts.
    """
    named, usual = plan.bucket_credentials, None
    variables: dict[str, str] = {}
    for bucket in plan.buckets:
        if bucket in named:
            keys = _load_keys(named[bucket])
        else:
            keys = usual = usual or _load_keys(None)
        access = make_user_access(keys, bucket)
        if access is None:
            raise RunError(
                f"s3://{bucket} needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a "
                "profile in ~/.aws, and AWS_ENDPOINT_URL for another server than Amazon's"
            )
        _check_access(bucket, access)
        variables[name_bucket_variable(bucket)] = access.to_json()
    return variables


def _check_access(bucket: str, access: S3Access) -> None:
    """Raise RunError for a bucket that does not exist, for refused keys and for a server that does not answer.

    Keys that may not list the bucket are not refused: they may be able to read or write.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client: Any = boto3.client(
        "s3",
        endpoint_url=access.endpoint,
        region_name=access.region,
        aws_access_key_id=access.access_key_id,
        aws_secret_access_key=access.secret_access_key,
        aws_session_token=access.session_token,
        config=Config(
            connect_timeout=_SECONDS,
            read_timeout=_SECONDS,
            retries={"total_max_attempts": 2},
            s3={"addressing_style": "path" if access.path_style else "auto"},
        ),
    )
    try:
        client.list_objects_v2(Bucket=bucket, MaxKeys=1)
    except ClientError as error:
        answer = error.response.get("Error", {})
        code = answer.get("Code", "")
        if code != "AccessDenied":
            raise RunError(f"s3://{bucket} cannot be reached: {_REASONS.get(code) or answer.get('Message')}") from error
    except BotoCoreError as error:
        raise RunError(f"s3://{bucket} cannot be reached: {summarize_error(error)}") from error


def _load_keys(credential: NamedCredential | None) -> dict[str, str]:
    """Return the keys of a profile, or the usual ones, as AWS's variables; those are empty without keys."""
    import boto3  # not at the top: few pipelines need it
    from botocore.exceptions import BotoCoreError

    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")  # other machines would wait for its answer
    where = f"{credential.location}: the credential '{credential.name}'" if credential else "the AWS configuration"
    try:
        session = boto3.Session(profile_name=credential.name if credential else None)
        found: Any = session.get_credentials()
        if found is None:
            return {}
        keys, meta = found.get_frozen_credentials(), session.client("s3", region_name=session.region_name).meta
    except (BotoCoreError, ValueError) as error:
        known = "a profile of AWS's files: " if credential else ""
        raise RunError(f"{where} cannot be used: {known}{summarize_error(error)}") from error
    given = {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_SESSION_TOKEN": keys.token,
        "AWS_REGION": session.region_name,
        "AWS_ENDPOINT_URL": None if meta.endpoint_url.endswith(_AMAZON) else meta.endpoint_url,
    }
    return {name: value for name, value in given.items() if value}
