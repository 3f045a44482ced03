#![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, TimeDelta};

use super::*;
use crate::source::clouds::{Address, Options};
use crate::source::wire::fake::{Answer, Fake, ReceivedRequest};

/// Starts a fake S3 server that answers each request by `answer`, and makes a client of a bucket on it.
async fn bucket(answer: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static) -> (Fake, Remote) {
    let server = Fake::serve(answer).await;
    let endpoint = server.url();
    let options = [
        ("endpoint", endpoint.as_str()),
        ("access_key_id", "AKIATEST"),
        ("secret_access_key", "secret"),
        ("region", "us-east-1"),
    ];
    let options: BTreeMap<_, _> = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let address = Address::parse("s3://bucket/x").unwrap().unwrap();
    let remote = Remote::connect(&address, &Options::new(&options), Arc::default()).unwrap();
    (server, remote)
}

fn error(code: &str, more: &str) -> Vec<u8> {
    format!("<Error><Code>{code}</Code>{more}</Error>").into_bytes()
}

#[tokio::test]
async fn a_bucket_in_another_region_is_named_with_its_region() {
    let header = || vec![("x-amz-bucket-region", "eu-west-1".to_owned())];
    for status in [301, 400] {
        let (server, remote) = bucket(move |_| (status, header(), Vec::new())).await;
        let error = remote.head(&Path::from("x")).await.unwrap_err().to_string();
        assert!(error.contains(&format!("answered {status}")), "{error}");
        assert!(
            error.ends_with("(the bucket is in eu-west-1: pass the storage option region=eu-west-1)"),
            "{error}"
        );
        assert_eq!(server.asked().len(), 2, "the HEAD, and a GET that could say more");
    }
    let body = || error("AuthorizationHeaderMalformed", "<Region>ap-south-1</Region>");
    let (_, remote) = bucket(move |_| (400, Vec::new(), body())).await;
    let error = remote.list(&Path::from("x")).await.unwrap_err().to_string();
    assert!(error.contains("400 AuthorizationHeaderMalformed (the bucket is in ap-south-1:"), "{error}");
}

#[tokio::test]
async fn why_a_head_is_refused_is_asked_with_a_get() {
    let answer = |asked: &ReceivedRequest| match asked.method.as_str() {
        "HEAD" => (403, Vec::new(), Vec::new()),
        _ => (403, Vec::new(), error("SignatureDoesNotMatch", "<Key>hunter2</Key>")),
    };
    let (server, remote) = bucket(answer).await;
    let error = remote.head(&Path::from("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let sentence = error.to_string();
    assert!(
        sentence.starts_with("the store answered 403 SignatureDoesNotMatch (the secret key is not"),
        "{sentence}"
    );
    assert_eq!(server.asked().last().unwrap().header("range"), Some("bytes=0-0"));
}

#[tokio::test]
async fn a_server_that_knows_no_head_is_asked_with_a_get() {
    let found = || {
        vec![
            ("ETag", "\"e\"".to_owned()),
            ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT".to_owned()),
            ("Content-Range", "bytes 0-0/77".to_owned()),
        ]
    };
    let answer = move |asked: &ReceivedRequest| match asked.method.as_str() {
        "HEAD" => (501, Vec::new(), Vec::new()),
        _ => (206, found(), b"x".to_vec()),
    };
    let (_, remote) = bucket(answer).await;
    let meta = remote.head(&Path::from("x")).await.unwrap().unwrap();
    assert_eq!((meta.size, meta.e_tag.as_deref()), (77, Some("\"e\"")));
}

fn page(keys: &[&str], token: Option<&str>) -> Answer {
    let contents = |key: &&str| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"
        )
    };
    let keys: String = keys.iter().map(contents).collect();
    let token = match token {
        Some(token) => {
            format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>")
        }
        None => "<IsTruncated>false</IsTruncated>".to_owned(),
    };
    (200, Vec::new(), format!("<ListBucketResult>{token}{keys}</ListBucketResult>").into_bytes())
}

#[tokio::test]
async fn a_list_whose_keys_are_not_sorted_resumes_where_it_broke_off() {
    let failed = AtomicUsize::new(0);
    let answer = move |asked: &ReceivedRequest| {
        assert!(!asked.path.contains("start-after"), "{}", asked.path);
        match asked.path.contains("continuation-token=t2") {
            true if failed.fetch_add(1, Ordering::Relaxed) == 0 => (500, Vec::new(), Vec::new()),
            true => page(&["x/a", "x/m"], None),
            // Both pages list `x/m`, which must be found only once.
            false => page(&["x/z", "x/m"], Some("t2")),
        }
    };
    let (server, remote) = bucket(answer).await;
    let found = remote.list(&Path::from("x")).await.unwrap();
    let keys: Vec<&str> = found.iter().map(|meta| meta.location.as_ref()).collect();
    assert_eq!(keys, ["x/a", "x/m", "x/z"]);
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_list_that_goes_on_for_ever_is_an_error() {
    let count = AtomicUsize::new(0);
    let answer = move |_: &ReceivedRequest| {
        page(&["x/a"], Some(&format!("t{}", count.fetch_add(1, Ordering::Relaxed))))
    };
    let (_, remote) = bucket(answer).await;
    let error = remote.list(&Path::from("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("the store's listing does not end"), "{error}");
}

#[tokio::test]
async fn an_empty_object_marks_a_folder_where_it_is_not_there_or_hadoop_says_so() {
    let found = |more: Option<&str>| {
        let more = more.map(|value| ("x-ms-meta-hdi_isfolder", value.to_owned()));
        let known =
            [("ETag", "\"e\"".to_owned()), ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT".to_owned())];
        known.into_iter().chain(more).collect::<Vec<_>>()
    };
    let server = Fake::serve(move |asked: &ReceivedRequest| match asked.path.rsplit('/').next() {
        Some("marked.parquet") => (200, found(Some("True")), Vec::new()),
        Some("file.parquet") => (200, found(None), Vec::new()),
        _ => (404, Vec::new(), Vec::new()),
    });
    let server = server.await;
    let options = [
        ("endpoint", server.url()),
        ("account_name", "anna".to_owned()),
        ("account_key", "c2VjcmV0".to_owned()),
        ("allow_http", "true".to_owned()),
    ];
    let options: BTreeMap<_, _> = options.map(|(key, value)| (key.to_owned(), value)).into();
    let address = Address::parse("az://container/x").unwrap().unwrap();
    let remote = Remote::connect(&address, &Options::new(&options), Arc::default()).unwrap();
    for (name, is_mark) in [("marked.parquet", true), ("file.parquet", false), ("none.parquet", true)] {
        assert_eq!(remote.is_folder_mark(&Path::from(name)).await.unwrap(), is_mark, "{name}");
    }
}

/// Starts a fake Hugging Face hub with one data set, and connects a client to it. `answer` answers the
/// requests for the list of files; its arguments are the request and the number of such requests before it.
async fn hub(answer: impl Fn(&ReceivedRequest, usize) -> Answer + Send + Sync + 'static) -> (Fake, Remote) {
    let trees = AtomicUsize::new(0);
    let server = Fake::serve(move |asked: &ReceivedRequest| match asked.path.contains("/tree/") {
        true => answer(asked, trees.fetch_add(1, Ordering::Relaxed)),
        false => (200, Vec::new(), br#"{"sha":"0123abcd"}"#.to_vec()),
    });
    let server = server.await;
    let options =
        BTreeMap::from([("endpoint".to_owned(), server.url()), ("token".to_owned(), "t".to_owned())]);
    let address = Address::parse("hf://datasets/o/n/x").unwrap().unwrap();
    let remote = Remote::connect(&address, &Options::new(&options), Arc::default()).unwrap();
    (server, remote)
}

fn tree(host: &str, key: &str, next: Option<&str>) -> Answer {
    let entry = format!(r#"[{{"type":"file","path":"{key}","size":1,"oid":"h"}}]"#);
    let link = next.map(|next| {
        ("Link", format!("<http://{host}/api/datasets/o/n/tree/0123abcd/x?cursor={next}>; rel=\"next\""))
    });
    (200, link.into_iter().collect(), entry.into_bytes())
}

#[tokio::test]
async fn a_hub_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let (server, remote) = hub(|asked, before| match before {
        0 => (429, Vec::new(), Vec::new()),
        1 => (503, Vec::new(), Vec::new()),
        _ => tree(asked.header("host").unwrap(), "x/a", None),
    })
    .await;
    assert_eq!(remote.list(&Path::from("x")).await.unwrap().len(), 1);
    assert_eq!(server.asked().len(), 4, "the revision, and the tree three times");
    for (status, kind) in [(403, ErrorKind::Denied), (501, ErrorKind::Io), (400, ErrorKind::Io)] {
        let (_, remote) = hub(move |_, _| (status, Vec::new(), Vec::new())).await;
        let error = remote.list(&Path::from("x")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn a_list_of_the_hub_that_loses_a_page_or_goes_in_circles_is_an_error() {
    let (_, remote) = hub(|asked, _| match asked.path.contains("cursor=2") {
        true => (404, Vec::new(), Vec::new()),
        false => tree(asked.header("host").unwrap(), "x/a", Some("2")),
    })
    .await;
    let lost = remote.list(&Path::from("x")).await.unwrap_err();
    let (_, remote) = hub(|asked, _| tree(asked.header("host").unwrap(), "x/a", Some("2"))).await;
    let circle = remote.list(&Path::from("x")).await.unwrap_err();
    for error in [lost, circle] {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("a page that does not exist or was already read"), "{error}");
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_named() {
    for key in ["x//a.parquet", "x/../a.parquet"] {
        let (_, remote) = bucket(move |_| page(&[key], None)).await;
        let error = remote.list(&Path::from("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("the key {key:?} has")), "{error}");
    }
}

#[test]
fn an_answer_about_another_writing_is_a_change_even_if_the_server_heeds_no_condition() {
    let meta = ObjectMeta {
        location: Path::from("x"),
        last_modified: DateTime::UNIX_EPOCH + TimeDelta::seconds(1_700_000_000),
        size: 10,
        e_tag: Some("\"one\"".into()),
        version: None,
    };
    let pin = Pin::from_meta(&meta);
    assert_eq!(pin.if_match().as_deref(), Some("\"one\""));
    assert!(pin.check(&meta).is_ok());
    assert!(pin.check(&ObjectMeta { e_tag: Some("one".into()), ..meta.clone() }).is_ok());
    let by_time = Pin::from_meta(&ObjectMeta { e_tag: None, ..meta.clone() });
    for (pin, other) in [
        (&pin, ObjectMeta { e_tag: Some("\"two\"".into()), ..meta.clone() }),
        (&pin, ObjectMeta { size: 11, ..meta.clone() }),
        (
            &by_time,
            ObjectMeta { last_modified: meta.last_modified + TimeDelta::nanoseconds(1), ..meta.clone() },
        ),
    ] {
        assert_eq!(pin.check(&other).unwrap_err().kind(), ErrorKind::DatasetChanged, "{other:?}");
    }
}
