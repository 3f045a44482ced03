#![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

use std::time::Duration;

use http::Request;
use object_store::client::HttpRequestBody;

use super::fake::{Fake, ranged};
use super::*;

const CANARY: &str = "hunter2-canary";

fn request(method: Method, url: &str) -> HttpRequest {
    Request::builder().method(method).uri(url).body(HttpRequestBody::empty()).unwrap()
}

/// Sends a request, and returns its status, its failure, and the response's body or the error's text.
async fn told(wire: &Wire, request: HttpRequest) -> (Option<u16>, Option<Failure>, String) {
    let client = wire.client(&ClientOptions::new().with_timeout_disabled()).unwrap();
    EXCHANGE
        .scope(Exchange::default(), async {
            let words = match client.execute(request).await {
                Ok(answer) => match answer.into_body().bytes().await {
                    Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
                    Err(error) => format!("{error} {error:?}"),
                },
                Err(error) => format!("{error} {error:?}"),
            };
            EXCHANGE.with(|exchange| (exchange.status(), exchange.failure(), words))
        })
        .await
}

#[tokio::test]
async fn every_request_gets_the_query_and_the_login_and_is_counted() {
    let server = Fake::serve(|_| (200, Vec::new(), b"hello".to_vec())).await;
    let wire = Wire::new()
        .with_query(Secret::new("sig=a%2Fb"))
        .with_login(Secret::new("ann"), Some(Secret::new("p:w")));
    for path in ["/x", "/x?a=1"] {
        let (status, failure, body) = told(&wire, request(Method::GET, &(server.url() + path))).await;
        assert_eq!((status, failure, body.as_str()), (Some(200), None, "hello"));
    }
    let asked = server.asked();
    assert_eq!(asked[0].path, "/x?sig=a%2Fb");
    assert_eq!(asked[1].path, "/x?a=1&sig=a%2Fb");
    assert_eq!(asked[0].header("authorization"), Some("Basic YW5uOnA6dw=="));
    assert_eq!(wire.requests(), 2);
}

#[tokio::test]
async fn a_redirect_to_another_server_is_refused_and_not_asked() {
    let other = Fake::serve(|_| (200, Vec::new(), b"gotcha".to_vec())).await;
    let target = format!("{}/x?sig={CANARY}", other.url());
    let server = Fake::serve(move |_| (302, vec![("Location", target.clone())], Vec::new())).await;
    let (_, failure, words) = told(&Wire::new(), request(Method::GET, &server.url())).await;
    let failure = failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Other);
    assert_eq!(failure.words, "the server redirects to http://127.0.0.1, which is not followed");
    assert!(!words.contains(CANARY), "{words}");
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn a_redirect_within_the_server_is_followed_but_not_for_ever() {
    let server = Fake::serve(|asked| match asked.path.as_str() {
        "/a" => (302, vec![("Location", "/b".into())], Vec::new()),
        "/loop" => (302, vec![("Location", "/loop".into())], Vec::new()),
        _ => (200, Vec::new(), b"there".to_vec()),
    })
    .await;
    let wire = Wire::new();
    assert_eq!(told(&wire, request(Method::GET, &(server.url() + "/a"))).await.2, "there");
    let (_, failure, _) = told(&wire, request(Method::GET, &(server.url() + "/loop"))).await;
    assert_eq!(failure.unwrap().words, "the server redirects more than 5 times");
}

#[tokio::test]
async fn a_token_does_not_go_to_where_the_hub_redirects() {
    let other = Fake::serve(|_| (200, Vec::new(), b"file".to_vec())).await;
    let target = format!("{}/file", other.url());
    let server = Fake::serve(move |_| (302, vec![("Location", target.clone())], Vec::new())).await;
    let wire = Wire::new().with_redirects(Redirects::AnyHttps);
    let mut request = request(Method::GET, &server.url());
    request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer secret"));
    request.headers_mut().insert("range", HeaderValue::from_static("bytes=0-3"));
    assert_eq!(told(&wire, request).await.2, "file");
    assert_eq!(server.asked()[0].header("authorization"), Some("Bearer secret"));
    let asked = other.asked();
    assert_eq!(asked[0].header("authorization"), None);
    assert_eq!(asked[0].header("referer"), None);
    assert_eq!(asked[0].header("range"), Some("bytes=0-3"));
}

#[tokio::test]
async fn a_hub_cannot_redirect_to_the_metadata_service_or_to_plain_http() {
    for target in ["http://169.254.169.254/latest", "https://169.254.169.254/x", "http://example.com/x"] {
        let server = Fake::serve(move |_| (302, vec![("Location", target.into())], Vec::new())).await;
        let wire = Wire::new().with_redirects(Redirects::AnyHttps);
        let (_, failure, _) = told(&wire, request(Method::GET, &server.url())).await;
        assert!(failure.unwrap().words.ends_with("which is not followed"), "{target}");
    }
}

#[tokio::test]
async fn a_failure_has_a_kind_and_words_without_the_url() {
    // No program listens at port 1, and the system never assigns this port to a program.
    let refused = format!("http://127.0.0.1:1/{CANARY}?sig={CANARY}");
    let unknown = format!("https://nowhere.invalid/{CANARY}");
    let plain = format!("http://store.example.com/{CANARY}");
    let no_tls = Fake::serve(|_| (200, Vec::new(), Vec::new())).await;
    let no_tls = format!("https://127.0.0.1:{}/{CANARY}", no_tls.port);
    let short = Fake::serve(|_| (200, vec![("Content-Length", "9".to_owned())], b"abc".to_vec())).await.url()
        + "/"
        + CANARY;
    let wire = Wire::new().with_query(Secret::new(format!("token={CANARY}")));
    for (url, kind) in [
        (refused, FailureKind::Refused),
        (unknown, FailureKind::Dns),
        (plain, FailureKind::Other),
        (no_tls, FailureKind::Tls),
        (short, FailureKind::Reset),
    ] {
        let (_, failure, words) = told(&wire, request(Method::GET, &url)).await;
        let failure = failure.unwrap_or_else(|| panic!("{url}: {words}"));
        assert_eq!(failure.kind, kind, "{url}: {failure:?}");
        assert!(!words.contains(CANARY) && !failure.words.contains(CANARY), "{words}");
    }
    assert!(!format!("{wire:?}").contains(CANARY));
}

#[tokio::test]
async fn a_full_server_says_when_to_come_again() {
    let server = Fake::serve(|_| (503, vec![("Retry-After", "2".to_owned())], Vec::new())).await;
    let client = Wire::new().client(&ClientOptions::new()).unwrap();
    let waits = EXCHANGE
        .scope(Exchange::default(), async {
            client.execute(request(Method::GET, &server.url())).await.unwrap();
            EXCHANGE.with(|exchange| (exchange.status(), exchange.retry_after()))
        })
        .await;
    assert_eq!(waits, (Some(503), Some(Duration::from_secs(2))));
}

#[tokio::test]
async fn a_head_by_get_tells_the_size_of_the_whole() {
    for (bytes, size) in [(&b"0123456789"[..], "10"), (b"", "0")] {
        let server = Fake::serve(move |asked| ranged(asked, bytes)).await;
        let client = Wire::new().with_head_by_get().client(&ClientOptions::new()).unwrap();
        let answer = client.execute(request(Method::HEAD, &server.url())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()[CONTENT_LENGTH], size);
        assert_eq!(server.asked()[0].method, "GET");
        assert!(answer.into_body().bytes().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_range_in_chunks_has_a_length() {
    let server = Fake::serve(|asked| {
        let (status, mut headers, body) = ranged(asked, b"0123456789");
        headers.push(("Transfer-Encoding", "chunked".to_owned()));
        (status, headers, [b"4\r\n", &body[..], b"\r\n0\r\n\r\n"].concat())
    })
    .await;
    let client = Wire::new().client(&ClientOptions::new()).unwrap();
    let mut request = request(Method::GET, &server.url());
    request.headers_mut().insert("range", "bytes=3-6".parse().unwrap());
    let answer = client.execute(request).await.unwrap();
    assert_eq!(answer.headers()[CONTENT_LENGTH], "4");
    assert_eq!(answer.into_body().bytes().await.unwrap(), &b"3456"[..]);
}

#[test]
fn equal_options_share_a_client_and_a_malformed_one_is_refused() {
    let wire = Wire::new();
    let options = || ClientOptions::new().with_timeout_disabled();
    wire.client(&options()).unwrap();
    wire.clone().client(&options()).unwrap();
    assert_eq!(wire.shared.clients.lock().unwrap().len(), 1);
    wire.client(&options().with_connect_timeout(Duration::from_secs(1))).unwrap();
    assert_eq!(wire.shared.clients.lock().unwrap().len(), 2);
    let malformed = options().with_config(ClientConfigKey::ConnectTimeout, CANARY);
    let error = wire.client(&malformed).unwrap_err().to_string();
    assert_eq!(error, "storage option \"connect_timeout\" is not a value that it can have");
    let malformed = options().with_config(ClientConfigKey::ProxyUrl, format!("::{CANARY}"));
    assert!(!wire.client(&malformed).unwrap_err().to_string().contains(CANARY));
}
