//! The control interface for programs in other languages, by HTTP on the same port.
//!
//! | request | does |
//! |---|---|
//! | `GET /_stats` | returns the sums, as JSON |
//! | `GET /_log` | returns every exchange, one line of JSON each |
//! | `GET` or `POST /_reset` | empties the sums and the log, and restarts the counts of rules |
//! | `GET /_rules` | returns the rules, as a JSON array |
//! | `POST /_rules` | adds a rule, or an array of them: `{"when": {"operation": "get", "from": 5}, "then": "reset"}` |
//! | `DELETE /_rules` | removes all rules |
//! | `POST /_outage` | `{"kind": "refuse", "lasting": 60}`: nobody is served for 60 seconds; `kind` may be `reset` |
//! | `POST /_credentials` | `{"access_key_id": "AKIA...", "session_token": "..."}`, or `null` to let everybody in |
//! | `POST /_etag` | `{"path": "bucket/key", "etag": "v2"}`; `null` restores the ETag of the file |
//!
//! These requests meet no faults, are not logged, and are not slowed down by the link. During an outage they
//! are not answered either, so a request for an outage must say when it ends.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::request::Request;
use crate::rule::FaultRule;
use crate::server::{Outage, Shared};
use crate::store::Credentials;

const JSON: &str = "application/json";

pub(crate) fn answer(request: &Request, body: &[u8], shared: &Shared) -> Answer {
    match (request.method.as_str(), request.path()) {
        ("GET", "_stats") => json(&shared.log.stats()),
        ("GET", "_log") => log(shared),
        ("GET" | "POST", "_reset") => {
            shared.log.reset();
            shared.rules.rewind();
            done()
        }
        ("GET", "_rules") => json(&shared.rules.list()),
        ("POST", "_rules") => obey(body, |rules: OneOrMore| match rules {
            OneOrMore::One(rule) => shared.rules.add(*rule),
            OneOrMore::More(rules) => rules.into_iter().for_each(|rule| shared.rules.add(rule)),
        }),
        ("DELETE", "_rules") => {
            shared.rules.clear();
            done()
        }
        ("POST", "_outage") => obey(body, |order: OutageOrder| outage(order, shared)),
        ("POST", "_credentials") => obey(body, |credentials: Option<Credentials>| {
            shared.store.require(credentials);
        }),
        ("POST", "_etag") => obey(body, |order: EtagOrder| shared.store.set_etag(order.path, order.etag)),
        _ => Answer::text(404, "text/plain", "not known; see control.rs for what is\n"),
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(Box<FaultRule>),
    More(Vec<FaultRule>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutageOrder {
    kind: Outage,
    #[serde(with = "crate::seconds")]
    lasting: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EtagOrder {
    path: String,
    etag: Option<String>,
}

/// The delay before an outage begins, in which the answer to the request for it can leave.
const NOTICE: Duration = Duration::from_millis(20);

fn outage(order: OutageOrder, shared: &Shared) {
    let outage = shared.outage.clone();
    tokio::spawn(async move {
        tokio::time::sleep(NOTICE).await;
        outage.send_replace(Some(order.kind));
        tokio::time::sleep(order.lasting).await;
        outage.send_replace(None);
    });
}

fn obey<T: DeserializeOwned>(body: &[u8], order: impl FnOnce(T)) -> Answer {
    match serde_json::from_slice(body) {
        Ok(read) => {
            order(read);
            done()
        }
        Err(error) => Answer::text(400, "text/plain", format!("{error}\n")),
    }
}

fn log(shared: &Shared) -> Answer {
    let lines: Result<Vec<String>, _> = shared.log.exchanges().iter().map(serde_json::to_string).collect();
    match lines {
        Ok(lines) => Answer::text(200, "application/x-ndjson", lines.join("\n") + "\n"),
        Err(error) => Answer::text(500, "text/plain", error.to_string()),
    }
}

fn json(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => Answer::text(200, JSON, body),
        Err(error) => Answer::text(500, "text/plain", error.to_string()),
    }
}

fn done() -> Answer {
    Answer::text(200, JSON, "{}")
}
