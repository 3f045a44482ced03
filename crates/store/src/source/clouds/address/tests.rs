use super::*;

fn parsed(url: &str) -> Address {
    Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).expect(url)
}

#[test]
fn a_url_names_a_root_and_a_key() {
    for (url, root, key) in [
        ("s3://acme", "s3://acme", ""),
        ("s3://acme/", "s3://acme", ""),
        ("s3a://acme/a/b.parquet", "s3://acme", "a/b.parquet"),
        ("S3://my.bucket-1/a/", "s3://my.bucket-1", "a/"),
        ("s3://b/x/*.parquet", "s3://b", "x/*.parquet"),
        ("s3://b/x/**/part-?.parquet", "s3://b", "x/**/part-?.parquet"),
        ("s3://b/[ab]/day=2020-01-01%2000%3A00/x", "s3://b", "[ab]/day=2020-01-01 00:00/x"),
        ("s3://b/dätä/%C3%BC.parquet", "s3://b", "dätä/ü.parquet"),
        ("s3://b/t/day=?/a%3Fb=c", "s3://b", "t/day=?/a?b=c"),
        ("s3://b/100%25/a#b@c", "s3://b", "100%/a#b@c"),
        ("gs://b/x", "gs://b", "x"),
        ("gcs://b/x", "gs://b", "x"),
        ("az://c/x", "az://c", "x"),
        ("abfs://c/x", "az://c", "x"),
        ("az://c/x/*.parquet?sv=1&sig=abc", "az://c", "x/*.parquet"),
        ("az://c/x/part-?.parquet", "az://c", "x/part-?.parquet"),
        ("abfss://c@a.dfs.core.windows.net/x/", "abfss://c@a.dfs.core.windows.net", "x/"),
        ("https://Host.example.com:443/a%20b?x=1#y", "https://host.example.com", "a b"),
        ("https://ann:pw@host:8443/a.parquet", "https://host:8443", "a.parquet"),
        ("http://[::1]:9000/x", "http://[::1]:9000", "x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example", "x"),
        ("https://host?x=1", "https://host", ""),
        ("hdfs://ns1/data/x", "hdfs://ns1", "data/x"),
        ("hopsfs://nn:8020/data", "hdfs://nn:8020", "data"),
        ("hdfs:///data", "hdfs://", "data"),
        ("viewfs://cluster/data", "viewfs://cluster", "data"),
        ("hf://datasets/o/n", "hf://datasets/o/n", ""),
        ("hf://datasets/o/n/a/*.parquet", "hf://datasets/o/n", "a/*.parquet"),
        ("hf://datasets/o/n@main/a", "hf://datasets/o/n", "a"),
        ("hf://datasets/o/n@v1.0/a", "hf://datasets/o/n@v1.0", "a"),
        ("hf://datasets/o/n@refs%2Fpr%2F7/a", "hf://datasets/o/n@refs/pr/7", "a"),
        ("hf://datasets/o/n@refs/convert/parquet/d/x", "hf://datasets/o/n@refs/convert/parquet", "d/x"),
    ] {
        let address = parsed(url);
        assert_eq!((address.root(), address.key()), (root, key), "{url}");
    }
}

#[test]
fn paths_and_file_urls_are_left_to_others() {
    for path in ["/data", "data/a", "file:///data", "FILE:///data", "C:\\data", "a b://c", "1a://x", ""] {
        assert!(Address::parse(path).unwrap().is_none(), "{path}");
    }
}

#[test]
fn a_malformed_url_is_refused_without_its_secrets() {
    for (url, cause) in [
        ("s3://", "the s3:// URL names no bucket"),
        ("s3:///x", "the s3:// URL names no bucket"),
        ("s3://b%20c/x", "the s3:// URL has a malformed bucket name"),
        ("s3://bücket/x", "the s3:// URL has a malformed bucket name"),
        ("s3://../x", "the s3:// URL has a malformed bucket name"),
        ("s3://key:hunter2@b/x", "the s3:// URL holds credentials"),
        ("s3://b/x?X-Amz-Signature=hunter2", "the s3:// URL holds a signature"),
        ("s3://b/a/../x", "the s3:// URL holds a \".\" or \"..\", which is not resolved in a URL"),
        ("s3://b/a/%2e%2e/x", "the s3:// URL holds a \".\" or \"..\", which is not resolved in a URL"),
        ("s3://b/nothing?x=y", "the s3:// URL holds a query"),
        ("gs://b/part-?.parquet?generation=1", "the gs:// URL holds a query"),
        ("az://c/x?versionid=1", "the az:// URL holds a query"),
        ("hdfs://nn/x?op=OPEN", "the hdfs:// URL holds a query"),
        ("hf://datasets/o/n/x?download=true", "the hf:// URL holds a query"),
        ("s3://b//x", "the s3:// URL holds an empty name"),
        ("s3://b/a//x", "the s3:// URL holds an empty name"),
        ("s3://b/x%zz", "the s3:// URL has a % without two hex digits"),
        ("s3://b/%ff", "the s3:// URL has a % without two hex digits"),
        ("s3://b/a%00", "the s3:// URL holds a control character"),
        ("https://", "the https:// URL has a malformed host"),
        ("https://ann:hunter2@/x", "the https:// URL has a malformed host"),
        ("https://ann:hunter2@host:99999/x", "the https:// URL has a malformed host"),
        ("http://169.254.169.254/latest", "the http:// URL names a metadata service, which holds no data"),
        ("http://2852039166/latest", "the http:// URL names a metadata service, which holds no data"),
        ("http://0xa9.254.169.254/x", "the http:// URL names a metadata service, which holds no data"),
        ("http://[fd00:ec2::254]/x", "the http:// URL names a metadata service, which holds no data"),
        (
            "http://[::ffff:169.254.169.254]/x",
            "the http:// URL names a metadata service, which holds no data",
        ),
        (
            "http://metadata.google.internal/x",
            "the http:// URL names a metadata service, which holds no data",
        ),
        ("hdfs://ann@nn/x", "the hdfs:// URL names a user"),
        ("hdfs://nn:port/x", "the hdfs:// URL has an invalid port"),
        ("hf://owner/name", "the hf:// URL does not begin with hf://datasets/"),
        ("hf://datasets/name", "the hf:// URL names no data set"),
        ("hf://datasets/o/n@/x", "the hf:// URL has a malformed revision"),
        ("hf://datasets/o/n@a%2F..%2Fb/x", "the hf:// URL has a malformed revision"),
        ("abfss://c@/x", "the abfss:// URL has a malformed host"),
    ] {
        let error = Address::parse(url).expect_err(url);
        assert_eq!((error.kind(), error.cause()), (ErrorKind::Invalid, cause), "{url}");
        assert!(!format!("{error}{error:?}").contains("hunter2"), "{error}");
    }
}

#[test]
fn an_unknown_scheme_is_answered_with_the_nearest() {
    let sentence = |url: &str| Address::parse(url).unwrap_err().to_string();
    assert_eq!(sentence("htps://ann:hunter2@h/x"), "htps:// is not read (did you mean https://?)");
    let far = sentence("nowhere://ann:hunter2@h/x");
    assert!(far.contains("known are s3") && !far.contains("hunter2"), "{far}");
    for url in
        ["maprfs://x/y", "o3fs://x/y", "ofs://x/y", "ftp://h/x", "wasbs://c@a/x", "gopher://h/x", "xs3://b"]
    {
        let hint = sentence(url);
        assert!(!hint.contains("did you mean"), "{hint}");
    }
    assert!(sentence("maprfs://x/y").ends_with("(mount it, and give the path of the folder)"));
    assert!(sentence("minio://x/y").ends_with("is s3:// with the storage option endpoint)"));
}

#[test]
fn what_is_secret_in_a_url_is_shown_nowhere() {
    for url in [
        "https://ann:hunter2@host/x?token=hunter2",
        "az://c/x?sv=1&sig=hunter2",
        "abfss://c@a.dfs.core.windows.net/x?sig=hunter2",
    ] {
        let address = parsed(url);
        let shown = format!("{address:?} {} {}", address.root(), address.key());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn one_store_serves_what_has_the_same_root_and_secrets() {
    let same = |a: &str, b: &str| parsed(a).same_store(&parsed(b));
    assert!(same("s3://b/x", "s3a://b/y/"));
    assert!(same("hf://datasets/o/n@main/x", "hf://datasets/o/n"));
    assert!(same("https://a:b@h/x?q=1", "https://a:b@h:443/y?q=1"));
    for other in ["https://h/x?q=1", "https://a:c@h/x?q=1", "https://a:b@h/x?q=2", "http://a:b@h/x?q=1"] {
        assert!(!same("https://a:b@h/x?q=1", other), "{other}");
    }
    assert!(!same("s3://b/x", "gs://b/x"));
}

#[test]
fn only_plain_http_cannot_list() {
    assert!(parsed("s3://b").lists() && parsed("hf://datasets/o/n").lists() && parsed("hdfs://n/").lists());
    assert!(!parsed("https://h/x").lists());
}
