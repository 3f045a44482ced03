#![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

use std::collections::BTreeMap;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStoreExt};

use super::*;
use crate::source::wire::fake::{Answer, Fake, ReceivedRequest, ranged};

const TOKEN: &str = "hf_hunter2canary";
const SHA: &str = "0123456789abcdef0123456789abcdef01234567";
const FILE: &[u8] = b"PAR1 what a file holds PAR1";

fn json(text: String) -> Answer {
    (200, vec![("Content-Type", "application/json".into())], text.into_bytes())
}

/// Answers as the hub does: with a listing of two pages, and with redirects to the server `files`.
fn hub(asked: &ReceivedRequest, files: &str) -> Answer {
    let api = "/api/datasets/o/n";
    let file = |path: &str, oid: &str| {
        format!(
            r#"{{"type":"file","path":"{path}","size":{},"oid":"pointer","lfs":{{"oid":"{oid}","size":1,"pointerSize":1}}}}"#,
            FILE.len()
        )
    };
    if asked.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return (401, Vec::new(), Vec::new());
    }
    let path = asked.path.as_str();
    if path == format!("{api}/revision/v1") {
        return json(format!(r#"{{"sha":"{SHA}","private":true}}"#));
    }
    if path == format!("{api}/revision/refs%2Fconvert%2Fparquet") {
        return json(format!(r#"{{"sha":"{SHA}"}}"#));
    }
    if path == format!("{api}/tree/{SHA}/data?recursive=true") {
        let host = asked.header("host").unwrap();
        let next = format!("<http://{host}{api}/tree/{SHA}/data?recursive=true&cursor=2>; rel=\"next\"");
        let folder = r#"{"type":"directory","path":"data/x y","size":0,"oid":"tree"}"#;
        let (status, _, body) = json(format!("[{folder},{}]", file("data/x y/a.parquet", "hash-a")));
        return (status, vec![("Link", next)], body);
    }
    if path == format!("{api}/tree/{SHA}/data?recursive=true&cursor=2") {
        return json(r#"[{"type":"file","path":"data/readme","size":3,"oid":"hash-r"}]"#.to_owned());
    }
    if path == format!("{api}/paths-info/{SHA}") {
        let found = asked.body.contains("data/x y/a.parquet");
        return json(format!(
            "[{}]",
            if found { file("data/x y/a.parquet", "hash-a") } else { String::new() }
        ));
    }
    if path == format!("/datasets/o/n/resolve/{SHA}/data/x%20y/a.parquet") {
        return (302, vec![("Location", format!("{files}/blob?signature=x"))], Vec::new());
    }
    (404, Vec::new(), Vec::new())
}

async fn servers() -> (Fake, Fake) {
    let files = Fake::serve(|asked| ranged(asked, FILE)).await;
    let elsewhere = files.url();
    (Fake::serve(move |asked| hub(asked, &elsewhere)).await, files)
}

fn open(hub: &Fake, options: &[(&str, &str)]) -> Result<Arc<dyn ObjectStore>> {
    let mut map: BTreeMap<_, _> =
        options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    map.insert("endpoint".into(), hub.url());
    let address = Address::parse("hf://datasets/o/n@v1/data/").unwrap().unwrap();
    connect(&address, &Options::new(&map), &Wire::new(), &|_| None)
}

#[tokio::test]
async fn a_data_set_is_listed_page_by_page_at_one_commit() {
    let (hub, _files) = servers().await;
    let store = open(&hub, &[("token", TOKEN)]).unwrap();
    for _ in 0..2 {
        let listed: Vec<_> = store.list(Some(&Path::from("data"))).try_collect().await.unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|meta| (meta.location.to_string(), meta.size, meta.e_tag.clone().unwrap()))
            .collect();
        let large = ("data/x y/a.parquet".to_owned(), FILE.len() as u64, "hash-a".to_owned());
        assert_eq!(listed, [large, ("data/readme".to_owned(), 3, "hash-r".to_owned())]);
    }
    let resolved = hub.asked().iter().filter(|asked| asked.path.contains("/revision/")).count();
    assert_eq!(resolved, 1);
    assert!(store.list(Some(&Path::from("none"))).try_collect::<Vec<_>>().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_file_is_read_from_where_the_hub_redirects_without_the_token() {
    let (hub, files) = servers().await;
    let store = open(&hub, &[("token", TOKEN)]).unwrap();
    let path = Path::parse("data/x y/a.parquet").unwrap();
    assert_eq!(store.get_range(&path, 5..9).await.unwrap(), "what");
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), FILE);
    let head = store.head(&path).await.unwrap();
    assert_eq!((head.size, head.e_tag.as_deref()), (FILE.len() as u64, Some("hash-a")));
    assert!(files.asked().iter().all(|asked| asked.header("authorization").is_none()));

    // The hash of the file is known from `head`, so a read with `If-Match` takes one request only.
    let before = hub.asked().len();
    let options = GetOptions::new().with_if_match(Some("hash-a")).with_range(Some(0..4));
    assert_eq!(store.get_opts(&path, options).await.unwrap().bytes().await.unwrap(), "PAR1");
    assert_eq!(hub.asked().len(), before + 1);
    let options = GetOptions::new().with_if_match(Some("hash-b"));
    let error = store.get_opts(&path, options).await.unwrap_err();
    assert!(matches!(error, object_store::Error::Precondition { .. }), "{error}");
}

#[tokio::test]
async fn what_is_not_there_or_not_shown_says_the_next_move() {
    let (hub, _files) = servers().await;
    let store = open(&hub, &[("token", TOKEN)]).unwrap();
    let error = store.head(&Path::from("none")).await.unwrap_err().to_string();
    assert!(error.contains("as Parquet it is at hf://datasets/o/n@refs/convert/parquet"), "{error}");

    let error = open(&hub, &[]).unwrap().head(&Path::from("x")).await.unwrap_err();
    assert!(matches!(error, object_store::Error::Unauthenticated { .. }), "{error}");
    assert!(error.to_string().contains("set HF_TOKEN"), "{error}");
    let wrong = open(&hub, &[("token", "hf_wronghunter2")]).unwrap();
    let error = wrong.head(&Path::from("x")).await.unwrap_err();
    assert!(!format!("{error}{error:?}{wrong:?}{wrong}").contains("hunter2"), "{error:?}");
}

#[test]
fn the_token_comes_from_where_the_hub_s_tools_leave_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "hf_kept\n").unwrap();
    let home = folder.path().to_string_lossy().into_owned();
    let found = kept(&|name| (name == "HF_HOME").then(|| home.clone()));
    assert_eq!(found.as_deref(), Some("hf_kept"));
    assert_eq!(kept(&|name| (name == "HOME").then(|| home.clone())), None);
}

#[tokio::test]
async fn a_hub_that_names_a_page_elsewhere_gets_no_token_there() {
    let other = Fake::serve(|_| (200, Vec::new(), b"[]".to_vec())).await;
    let elsewhere = other.url();
    let hub = Fake::serve(move |asked| match asked.path.contains("/revision/") {
        true => json(format!(r#"{{"sha":"{SHA}"}}"#)),
        false => (200, vec![("Link", format!("<{elsewhere}/next>; rel=\"next\""))], b"[]".to_vec()),
    })
    .await;
    let store = open(&hub, &[("token", TOKEN)]).unwrap();
    assert!(store.list(None).try_collect::<Vec<_>>().await.is_err());
    assert!(other.asked().is_empty());
}
