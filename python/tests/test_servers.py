"""The servers of ``servers/`` behave as the tests of stores assume, checked with clients that are not
forebay's."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
import xml.etree.ElementTree as xml
from email.message import Message
from itertools import chain
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from servers import CANARY, Store, azure, gcs, hdfs, https, hub, s3

# A request for a byte range.
RANGE = {"Range": "bytes=4-8"}
MIDDLE = slice(4, 9)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Five files whose names need escaping."""
    folder = tmp_path / "shelf" / "data"
    for number, name in enumerate(["a.bin", "day=1/b c.bin", "day=1/d+e.bin", "day=2/é/日本.bin", "day=2/100%.bin"]):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([number]) * 10 + name.encode())
    return tmp_path / "shelf"


def names(shelf: Path) -> list[str]:
    return sorted(path.relative_to(shelf).as_posix() for path in shelf.rglob("*.bin"))


def get(url: str, trust: str | None = None, **headers: str) -> tuple[int, bytes, Message]:
    """Returns status, body and headers, also of a refusal."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    context = ssl.create_default_context(cafile=trust) if trust else None
    try:
        with urllib.request.urlopen(request, context=context) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read(), refusal.headers


def test_moto_lists_in_pages_serves_ranges_and_checks_keys_and_etags(shelf: Path, tmp_path: Path) -> None:
    with s3.serve(shelf, tmp_path) as store:
        from botocore.exceptions import ClientError

        client = store_client(store, store.options)
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=s3.BUCKET, Prefix="data/", PaginationConfig={"PageSize": 2}
        )
        found = [[entry["Key"] for entry in page["Contents"]] for page in pages]
        assert sorted(chain(*found)) == names(shelf)
        assert len(found) == 3
        for name in names(shelf):
            answer = client.get_object(Bucket=s3.BUCKET, Key=name, **RANGE)
            assert answer["Body"].read() == (shelf / name).read_bytes()[MIDDLE]
            client.get_object(Bucket=s3.BUCKET, Key=name, IfMatch=answer["ETag"])
            with pytest.raises(ClientError, match="PreconditionFailed"):
                client.get_object(Bucket=s3.BUCKET, Key=name, IfMatch='"other"')
        assert store.wrong is not None
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            store_client(store, store.wrong).list_objects_v2(Bucket=s3.BUCKET)


def store_client(store: Store, options: dict[str, str]):  # type: ignore[no-untyped-def]
    key, secret = options["aws_access_key_id"], options["aws_secret_access_key"]
    return s3.client("s3", options["aws_endpoint_url"], key, secret)


@pytest.mark.parametrize("serve", [gcs.serve, gcs.serve_by_moto], ids=["fake-gcs-server", "moto"])
def test_googles_xml_interface_lists_and_serves_ranges(serve, shelf: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with serve(shelf, tmp_path) as store:
        bucket = f"{store.options['google_base_url']}/{s3.BUCKET}"
        status, body, _ = get(f"{bucket}?list-type=2&prefix=data%2F")
        assert status == 200
        listed = {key.text for key in xml.fromstring(body).iter() if key.tag.endswith("Key")}
        assert sorted(map(str, listed)) == names(shelf)
        for name in names(shelf):
            status, body, headers = get(f"{bucket}/{quote(name, safe='')}", **RANGE)
            whole = (shelf / name).read_bytes()
            assert (status, body) == (206, whole[MIDDLE])
            assert headers["Content-Range"] == f"bytes 4-8/{len(whole)}"
            assert headers["ETag"] and headers["Last-Modified"]
        assert get(f"{bucket}/data/none")[0] == 404


def test_moto_says_404_for_a_bucket_of_google_that_is_not_there(shelf: Path, tmp_path: Path) -> None:
    with gcs.serve_by_moto(shelf, tmp_path) as store:
        assert get(f"{store.options['google_base_url']}/no-such-bucket?list-type=2")[0] == 404


def test_azurite_lists_in_pages_serves_ranges_and_checks_keys_and_etags(shelf: Path, tmp_path: Path) -> None:
    with azure.serve(shelf, tmp_path) as store:
        from azure.core import MatchConditions
        from azure.core.exceptions import HttpResponseError
        from azure.storage.blob import ContainerClient

        def container(options: dict[str, str]) -> ContainerClient:
            names = ["azure_storage_account_name", "azure_storage_account_key"]
            credential = dict(zip(["account_name", "account_key"], map(options.__getitem__, names), strict=True))
            return ContainerClient(options["azure_endpoint"], azure.CONTAINER, credential)

        blobs = container(store.options)
        pages = [[blob.name for blob in page] for page in blobs.list_blobs("data/", results_per_page=2).by_page()]
        assert sorted(chain(*pages)) == names(shelf)
        assert len(pages) == 3
        for name in names(shelf):
            part = blobs.download_blob(name, offset=4, length=5)
            assert part.readall() == (shelf / name).read_bytes()[MIDDLE]
            with pytest.raises(HttpResponseError, match="ConditionNotMet"):
                blobs.download_blob(name, etag='"other"', match_condition=MatchConditions.IfNotModified)
        assert store.wrong is not None
        with pytest.raises(HttpResponseError, match="AuthorizationFailure"):
            list(container(store.wrong).list_blobs())


def test_nginx_serves_ranges_to_those_who_trust_it_and_lists_nothing(shelf: Path, tmp_path: Path) -> None:
    with https.serve(shelf, tmp_path) as store:
        trust = store.environment["SSL_CERT_FILE"]
        for name in names(shelf):
            status, body, headers = get(store.url(name), trust, **RANGE)
            assert (status, body) == (206, (shelf / name).read_bytes()[MIDDLE])
            assert get(store.url(name), trust, If_Match=headers["ETag"])[0] == 200
            assert get(store.url(name), trust, If_Match='"other"')[0] == 412
        assert get(store.url("data/"), trust)[0] == 403
        assert get(store.url("data/none"), trust)[0] == 404
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            get(store.url("data/a.bin"))


def test_the_hub_lists_in_pages_redirects_and_keeps_its_token_to_itself(shelf: Path, tmp_path: Path) -> None:
    with hub.serve(shelf, tmp_path) as store:
        endpoint = store.options["hf_endpoint"]
        token = {"Authorization": f"Bearer {hub.TOKEN}"}
        api = f"{endpoint}/api/datasets/{hub.DATASET}"
        assert get(f"{api}/revision/main")[0] == 401
        assert get(f"{api}/revision/main", Authorization=f"Bearer {CANARY}")[0] == 401
        _, body, _ = get(f"{api}/revision/main", **token)
        revision = json.loads(body)["sha"]
        entries, page = [], f"{api}/tree/{revision}/data?recursive=true"
        while page:
            _, body, headers = get(page, **token)
            entries += json.loads(body)
            page = (headers["Link"] or "").partition(">")[0].lstrip("<")
        assert sorted(entry["path"] for entry in entries if entry["type"] == "file") == names(shelf)
        assert {entry["path"] for entry in entries if entry["type"] == "directory"} == {
            "data/day=1",
            "data/day=2",
            "data/day=2/é",
        }
        info = urllib.request.Request(
            f"{api}/paths-info/{revision}", json.dumps({"paths": ["data/a.bin", "data/none"]}).encode(), token
        )
        with urllib.request.urlopen(info) as answer:
            assert [entry["path"] for entry in json.load(answer)] == ["data/a.bin"]
        for name in names(shelf):
            resolve = urllib.request.Request(f"{endpoint}/datasets/{hub.DATASET}/resolve/{revision}/{quote(name)}")
            redirect = where(resolve, token)
            assert urlsplit(redirect).netloc != urlsplit(endpoint).netloc
            assert get(redirect, **token)[0] == 400
            status, body, headers = get(redirect, **RANGE)
            assert (status, body) == (206, (shelf / name).read_bytes()[MIDDLE])
            assert get(redirect, Range="bytes=-3")[1] == (shelf / name).read_bytes()[-3:]


def where(request: urllib.request.Request, headers: dict[str, str]) -> str:
    """Returns the target of a redirected request."""
    import http.client

    url = urlsplit(request.full_url)
    connection = http.client.HTTPConnection(url.netloc)
    connection.request("GET", url.path, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 302
    return str(response.headers["Location"])


def test_hdfs_has_two_name_nodes_that_take_turns(shelf: Path, tmp_path: Path) -> None:
    with hdfs.serve(shelf, tmp_path) as store:
        assert store.options["dfs.ha.namenodes.minicluster"].count(",") == 1
        assert store.fail_over is not None
        store.fail_over()
        store.fail_over()
