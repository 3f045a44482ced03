//! The answers of the store without faults.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

mod common;

use std::fs;

use common::*;
use fault_server::Credentials;

/// The values of a tag, in order.
fn values(xml: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    xml.split(&open).skip(1).map(|rest| rest.split(&close).next().unwrap().to_string()).collect()
}

#[test]
fn a_list_comes_in_pages_that_make_up_the_whole() {
    let dir = bucket();
    for n in 0..25 {
        fs::write(dir.path().join(format!("dir/part-{n:02}")), vec![0; n]).unwrap();
    }
    let server = builder(&dir).page(10).start().unwrap();
    let mut wire = RawConnection::to(server.address());
    let (mut keys, mut sizes, mut pages, mut token) = (Vec::new(), Vec::new(), 0, String::new());
    loop {
        let page = wire.ask(&format!("GET /bucket?list-type=2&prefix=dir%2Fpart{token}"), &[]).text();
        keys.extend(values(&page, "Key"));
        sizes.extend(values(&page, "Size"));
        pages += 1;
        assert_eq!(values(&page, "KeyCount"), [values(&page, "Key").len().to_string()]);
        match values(&page, "NextContinuationToken").first() {
            Some(next) => token = format!("&continuation-token={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(keys, (0..25).map(|n| format!("dir/part-{n:02}")).collect::<Vec<_>>());
    assert_eq!(sizes, (0..25).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(server.stats().lists, 3);
}

#[test]
fn a_list_rolls_up_folders_begins_after_a_key_and_escapes_names() {
    let dir = bucket();
    fs::write(dir.path().join("a & <b>.txt"), "x").unwrap();
    fs::write(dir.path().join("dir.txt"), "x").unwrap();
    let server = server(&dir);
    let list = |query: &str| ask(&server, &format!("GET /bucket?list-type=2{query}"), &[]).text();

    let top = list("&delimiter=%2F");
    // Keys are sorted by bytes, and '.' comes before '/'.
    assert_eq!(values(&top, "Key"), ["a &amp; &lt;b&gt;.txt", "dir.txt"]);
    assert_eq!(values(&values(&top, "CommonPrefixes").concat(), "Prefix"), ["dir/"]);
    assert_eq!(values(&list("&start-after=dir.txt"), "Key"), ["dir/digits"]);
    assert_eq!(values(&list("&prefix=dir/"), "Key"), ["dir/digits"]);
    assert_eq!(values(&list("&encoding-type=url&prefix=a"), "Key"), ["a%20%26%20%3Cb%3E.txt"]);
    assert_eq!(values(&list("&prefix=nothing"), "KeyCount"), ["0"]);
    assert_eq!(values(&list("&prefix=../"), "KeyCount"), ["0"]);
    assert_eq!(values(&list("&max-keys=1"), "IsTruncated"), ["true"]);
}

#[test]
fn list_head_and_get_agree_on_the_etag_and_a_new_version_has_another() {
    let dir = bucket();
    let server = server(&dir);
    let etag = || {
        let head = ask(&server, "HEAD /bucket/dir/digits", &[]);
        assert_eq!((head.status(), head.header("content-length"), head.body.len()), (200, Some("10"), 0));
        let get = ask(&server, "GET /bucket/dir/digits", &[]);
        let list = ask(&server, "GET /bucket?list-type=2", &[]).text();
        let etag = get.header("etag").unwrap().to_string();
        assert_eq!(head.header("etag"), Some(etag.as_str()));
        assert_eq!(values(&list, "ETag"), [etag.replace('"', "&quot;")]);
        etag
    };
    let first = etag();
    assert_eq!(etag(), first);
    server.set_etag("bucket", "dir/digits", Some("v2"));
    assert_eq!(etag(), "\"v2\"");
    server.set_etag("bucket", "dir/digits", None);
    assert_eq!(etag(), first);
    fs::write(dir.path().join("new"), DIGITS).unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("dir/digits")).unwrap();
    assert_ne!(etag(), first);
}

#[test]
fn conditions_are_kept() {
    let dir = bucket();
    let server = server(&dir);
    server.set_etag("bucket", "dir/digits", Some("v1"));
    for (header, value, status, body) in [
        ("If-Match", "\"v1\"", 200, "0123456789"),
        ("If-Match", "\"v0\"", 412, "<Code>PreconditionFailed</Code>"),
        ("If-None-Match", "\"v0\"", 200, "0123456789"),
        ("If-None-Match", "\"v1\"", 304, ""),
    ] {
        let seen = ask(&server, "GET /bucket/dir/digits", &[(header, value)]);
        assert_eq!(seen.status(), status, "{header}: {value}");
        assert!(seen.text().contains(body), "{header}: {value}");
    }
    assert_eq!(server.log()[0].if_match.as_deref(), Some("\"v1\""));
}

#[test]
fn ranges_have_their_bytes_and_say_which() {
    let dir = bucket();
    let server = server(&dir);
    for (range, status, content_range, body) in [
        ("bytes=0-3", 206, "bytes 0-3/10", "0123"),
        ("bytes=8-", 206, "bytes 8-9/10", "89"),
        ("bytes=8-100", 206, "bytes 8-9/10", "89"),
        ("bytes=-3", 206, "bytes 7-9/10", "789"),
        ("bytes=10-", 416, "bytes */10", "<Code>InvalidRange</Code>"),
    ] {
        let seen = ask(&server, "GET /bucket/dir/digits", &[("Range", range)]);
        assert_eq!((seen.status(), seen.header("content-range")), (status, Some(content_range)), "{range}");
        assert!(seen.text().contains(body), "{range}: {}", seen.text());
        assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string().as_str()), "{range}");
    }
    assert_eq!(server.log()[1].range, Some(8..10));
    assert_eq!(server.log()[4].range, None);
}

#[test]
fn what_is_not_there_is_refused_as_s3_refuses_it() {
    let dir = bucket();
    let server = server(&dir);
    for (line, status, code) in [
        ("GET /bucket/none", 404, "NoSuchKey"),
        ("GET /bucket/dir", 404, "NoSuchKey"),
        ("GET /bucket/dir/../dir/digits", 404, "NoSuchKey"),
        ("GET /bucket/%2e%2e/digits", 404, "NoSuchKey"),
        ("GET /other/key", 404, "NoSuchBucket"),
        ("GET /bucket", 501, "NotImplemented"),
        ("DELETE /bucket/key", 501, "NotImplemented"),
    ] {
        let seen = ask(&server, line, &[]);
        assert_eq!(seen.status(), status, "{line}");
        assert!(seen.text().contains(&format!("<Code>{code}</Code>")), "{line}: {}", seen.text());
    }
    let head = ask(&server, "HEAD /bucket/none", &[]);
    assert_eq!((head.status(), head.body.len()), (404, 0));
}

#[test]
fn credentials_are_required_and_can_rotate() {
    let dir = bucket();
    let server = builder(&dir).credentials(Credentials::new("AKIA1").session_token("one")).start().unwrap();
    let status = |id: &str, token: &str| {
        let authorization = format!("AWS4-HMAC-SHA256 Credential={id}/20280229/us-east-1/s3/aws4_request");
        let headers = [("Authorization", authorization.as_str()), ("x-amz-security-token", token)];
        ask(&server, "GET /bucket/dir/digits", &headers).status()
    };
    assert_eq!([status("AKIA1", "one"), status("AKIA2", "one"), status("AKIA1", "two")], [200, 403, 403]);
    server.require(Some(Credentials::new("AKIA1").session_token("two")));
    assert_eq!([status("AKIA1", "one"), status("AKIA1", "two")], [403, 200]);
    assert_eq!(ask(&server, "GET /bucket/dir/digits", &[]).status(), 403);
    server.require(None);
    assert_eq!(ask(&server, "GET /bucket/dir/digits", &[]).status(), 200);
    assert_eq!(server.log()[1].access_key_id.as_deref(), Some("AKIA2"));
}
