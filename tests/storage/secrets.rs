//! Keys, tokens, passwords and signatures do not appear in anything that is shown, saved or logged.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};

use fault_server::{Fault, FaultServer, Match, Outage};
use forebay::{Dataset, DiskCache, Error, Loader};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use crate::data::{PREFIX, name_of};
use crate::kit::*;

/// Words that must not be shown. The word CANARY makes them easy to find, even if they are encoded.
const KEY: &str = "CANARYsecretkey0001";
const TOKEN: &str = "CANARYsessiontoken0002";
const PASSWORD: &str = "CANARYpassword0003";
const SIGNATURE: &str = "CANARYsignature0004";
const CUSTOMER_KEY: &str = "Q0FOQVJZY3VzdG9tZXJrZXkwMDAwMDAwMDAwMDA1MDA=";
const SECRETS: [&str; 5] = [KEY, TOKEN, PASSWORD, SIGNATURE, CUSTOMER_KEY];

/// Everything that was shown, with the place where it was.
#[derive(Default)]
struct Shown(Vec<(String, String)>);

impl Shown {
    fn add(&mut self, sink: &str, text: impl Into<String>) {
        self.0.push((sink.to_string(), text.into()));
    }

    fn debug(&mut self, sink: &str, value: &impl Debug) {
        self.add(sink, format!("{value:?}\n{value:#?}"));
    }

    fn error(&mut self, sink: &str, error: &Error) {
        self.add(sink, format!("{error}\n{error:?}\n{error:#?}"));
    }

    fn loader(&mut self, sink: &str, loader: &Loader) {
        self.debug(sink, loader);
        let stats = loader.stats();
        self.add(sink, format!("{stats}\n{stats:?}\n{}", serde_json::to_string(&stats).unwrap()));
        self.add(sink, serde_json::to_string(&loader.position()).unwrap());
        let plan = loader.plan(0).unwrap();
        self.add(sink, format!("{plan}\n{plan:?}\n{}", serde_json::to_string(&plan).unwrap()));
    }
}

/// Opens and reads a location in every state of a server, and collects what each shows.
fn provoke(shown: &mut Shown, server: &FaultServer, url: &str, more: &[(&str, &str)]) {
    let options = options(server, more);
    let plain = url.starts_with("http");
    let options: BTreeMap<_, _> = match plain {
        true => options.into_iter().filter(|(key, _)| !key.starts_with("aws_")).collect(),
        false => options,
    };
    let mut hasty = options.clone();
    hasty.insert("retry_timeout".into(), "300ms".into());
    let open = || Dataset::open_with_options(url, &hasty);
    let kept = tempfile::tempdir().unwrap();
    let mut keeping = options;
    keeping.insert("metadata_cache".into(), kept.path().join("footers").to_str().unwrap().into());
    let dataset = Dataset::open_with_options(url, &keeping).unwrap();
    shown.debug("data set", &dataset);
    shown.debug("catalogue", dataset.catalog());
    let cache = DiskCache::open(kept.path().join("rows"), 1 << 30).unwrap();
    let builder = shuffled(&dataset).cache(cache.clone()).cache_tier(forebay::Tier::Rows);
    shown.debug("builder", &builder);
    let loader = builder.build().unwrap();
    let run = run(loader.epoch(0));
    assert!(run.error.is_none(), "{:?}", run.error);
    shown.loader("loader", &loader);
    drop(loader);
    assert!(cache.stats().written > 0, "nothing was written that could show a secret");
    for path in files_below(kept.path()) {
        // A file that was being written may have its final name by now.
        if let Ok(bytes) = std::fs::read(&path) {
            shown.add("on disk", String::from_utf8_lossy(&bytes));
        }
        shown.add("on disk", path.to_string_lossy());
    }

    // Opening has a short time limit, which a busy machine may exceed.
    let dataset = (0..100).find_map(|_| open().ok()).unwrap();
    let faults = [
        Fault::status(403),
        Fault::status(401),
        Fault::Status { code: 400, retry_after: None, error: Some("ExpiredToken".into()) },
        Fault::status(404),
        Fault::status(412),
        Fault::status(500),
        Fault::Reset,
        Fault::ShortContentLength,
        Fault::WholeBody200,
        Fault::Redirect { to: "http://example.invalid".into() },
    ];
    for fault in faults {
        server.clear_rules();
        server.add(Match::request(), fault.clone());
        let sink = format!("{fault:?}");
        shown.error(&sink, &open().unwrap_err());
        let loader = shuffled(&dataset).build().unwrap();
        if let Some(error) = crate::kit::run(loader.epoch(0)).error {
            shown.error(&sink, &error);
        }
        shown.loader(&sink, &loader);
    }
    server.clear_rules();
    server.outage(Some(Outage::Refuse));
    let mut refused = None;
    assert!(until(|| {
        refused = open().err();
        refused.is_some()
    }));
    shown.error("nobody listens", &refused.unwrap());
    server.outage(None);
}

#[test]
fn no_secret_is_shown_saved_or_logged() {
    record();
    let mut shown = Shown::default();
    let keys = [
        ("aws_secret_access_key", KEY),
        ("aws_session_token", TOKEN),
        ("aws_server_side_encryption", "sse-c"),
        ("aws_sse_customer_key_base64", CUSTOMER_KEY),
    ];
    provoke(&mut shown, &server(), &url(), &keys[..2]);
    let server = server();
    let at = server.url().replace("http://", &format!("http://ann:{PASSWORD}@"));
    let presigned = format!("{at}/bucket/{PREFIX}/{}?X-Amz-Signature={SIGNATURE}", name_of(0));
    provoke(&mut shown, &server, &presigned, &[]);
    // These locations cannot be opened at all.
    for url in [format!("s3://ann:{PASSWORD}@bucket/x"), format!("s3://bucket/x?sig={SIGNATURE}")] {
        if let Err(error) = Dataset::open_with_options(&*url, &options(&server, &keys)) {
            shown.error("malformed", &error);
        }
    }
    for (key, value) in [("aws_regoin", KEY), ("retry_timeout", KEY), ("aws_sse_customer_key_base64", KEY)] {
        if let Err(error) = open(&server, &[(key, value)]) {
            shown.error("options", &error);
        }
    }
    RECORDING.store(false, Relaxed);
    let logged = std::mem::take(&mut *LOGGED.lock().unwrap_or_else(PoisonError::into_inner));
    println!("S1: {} texts and {} bytes of log looked through", shown.0.len(), logged.len());
    assert!(!logged.is_empty(), "nothing was logged: the recorder does not work");
    shown.add("log", logged);
    for (sink, text) in &shown.0 {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in {sink}: {}", around(text, secret));
        }
    }
}

fn around(text: &str, secret: &str) -> String {
    let at = text.find(secret).unwrap_or_default();
    text.chars().skip(at.saturating_sub(200)).take(400).collect()
}

#[test]
fn a_redirect_to_another_server_is_not_followed() {
    let (server, other) = (server(), server());
    let dataset = open(&server, &[]).unwrap();
    for when in [Match::request(), Match::list(), Match::get()] {
        server.clear_rules();
        server.add(when, Fault::Redirect { to: other.url() });
        let error = open(&server, &[("retry_timeout", "1s")]).unwrap_err();
        assert!(error.to_string().contains("redirect"), "{error}");
        let read = run(shuffled(&dataset).build().unwrap().epoch(0));
        assert!(read.error.is_none_or(|error| error.to_string().contains("redirect")));
    }
    assert_eq!(other.stats().connections, 0);
}

static RECORDING: AtomicBool = AtomicBool::new(false);
static LOGGED: Mutex<String> = Mutex::new(String::new());

/// From now on, keeps everything that any library logs, at any level.
fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Recorder).unwrap();
        log::set_logger(&Recorder).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
    RECORDING.store(true, Relaxed);
}

struct Recorder;

fn keep(text: std::fmt::Arguments<'_>) {
    if RECORDING.load(Relaxed) {
        let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(logged, "{text}");
    }
}

impl Visit for Recorder {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        keep(format_args!("{}: {value:?}", field.name()));
    }
}

impl tracing::Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        RECORDING.load(Relaxed)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Recorder);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Recorder);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Recorder);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl log::Log for Recorder {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        RECORDING.load(Relaxed)
    }

    fn log(&self, record: &log::Record<'_>) {
        keep(format_args!("{}: {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}
