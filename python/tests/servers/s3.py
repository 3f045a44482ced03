"""moto, an emulator of S3 and other services of AWS. It checks signatures if it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from . import CANARY, Store
from .process import files, find, free_port, post, running

BUCKET = "forebay"
REGION = "us-east-1"
EVERYTHING = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """Starts moto, and yields its URL."""
    pytest.importorskip("moto", reason="moto is not installed (tools/setup servers)")
    port = free_port()
    command = [find("moto", "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with running(command, port, folder / "moto"):
        yield f"http://127.0.0.1:{port}"


def client(service: str, endpoint: str, key: str = "any", secret: str = "any") -> Any:
    import boto3

    return boto3.client(
        service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret
    )


def upload(endpoint: str, shelf: Path) -> None:
    s3 = client("s3", endpoint)
    s3.create_bucket(Bucket=BUCKET)
    for name, path in files(shelf):
        # The files are public, so that a client without a key can read them too.
        s3.upload_file(str(path), BUCKET, name, {"ACL": "public-read"})


@contextmanager
def serve(shelf: Path, folder: Path) -> Iterator[Store]:
    with moto(folder) as endpoint:
        upload(endpoint, shelf)
        iam = client("iam", endpoint)
        iam.create_user(UserName="reader")
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
        # From here on moto checks every request.
        post(f"{endpoint}/moto-api/reset-auth", b"0")
        options = {
            "aws_endpoint_url": endpoint,
            "aws_region": REGION,
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        yield Store(
            root=f"s3://{BUCKET}",
            options=options,
            wrong={**options, "aws_secret_access_key": CANARY},
            missing=["s3://no-such-bucket/data"],
        )
