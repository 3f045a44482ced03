//! Faults, named after their appearance on the wire.
//!
//! A fault does one of two things, or neither: it changes the answer ([`Fault::change`]), and it writes
//! another script for sending it ([`script`]). Both are plain values, so that this file is the whole list of
//! what can happen.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Body, Framing};
use crate::request::{Operation, Request};

/// One way to misbehave. In JSON `"reset"` or `{"stall_after": {"bytes": 4096, "lasting": 2.5}}`; durations
/// are seconds.
///
/// A fault never acts where it would mean nothing (a false `Content-Range` where no range was asked for):
/// such a request is no candidate for its rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// This status instead of the object, with S3's error document.
    Status {
        /// 500, 503, 429, 403, ...
        code: u16,
        /// Sent as `Retry-After`, in whole seconds.
        #[serde(default, with = "crate::seconds::maybe")]
        retry_after: Option<Duration>,
        /// S3's own code, as in `ExpiredToken`; by default the usual one for the status.
        #[serde(default)]
        error: Option<String>,
    },
    /// 404 NoSuchKey, as if the object had been deleted.
    Gone,
    /// 307 to this base URL, with the path and query that were asked for.
    Redirect {
        /// As in `http://127.0.0.1:9000`.
        to: String,
    },
    /// The connection is reset (RST) before a byte of the answer.
    Reset,
    /// The connection is reset after so many bytes of the body.
    ResetAfter {
        /// At least one byte is always left out.
        bytes: u64,
    },
    /// `Content-Length` tells of the whole body; half of it follows, and an orderly end of the connection
    /// (FIN).
    ShortContentLength,
    /// Chunked encoding, half of the body, then the end.
    ChunkedEnd {
        /// With the last, empty chunk: nothing on the wire tells that bytes are missing. Without it: FIN
        /// inside the body.
        clean: bool,
    },
    /// A 206 with the first half of the range, and `Content-Range` says so.
    Short206,
    /// A 206 with the first half of the range, `Content-Length` says so, and `Content-Range` tells of all of
    /// it.
    Short206FullContentRange,
    /// A 206 with the right bytes, and a `Content-Range` that begins one byte later and ends one byte later.
    WrongContentRange,
    /// A 206 with the right bytes and no `Content-Range`.
    NoContentRange,
    /// A 200 with the whole object for a range.
    WholeBody200,
    /// Nothing is sent for so long, not even the status; then all is well.
    StallBeforeHead {
        /// None: for ever, that is until the client goes away.
        #[serde(default, with = "crate::seconds::maybe")]
        lasting: Option<Duration>,
    },
    /// Silence after so many bytes of the body; then all is well.
    StallAfter {
        /// At least one byte is always left for later.
        bytes: u64,
        /// None: for ever, that is until the client goes away.
        #[serde(default, with = "crate::seconds::maybe")]
        lasting: Option<Duration>,
    },
    /// The body passes at this rate: slow, and alive.
    Trickle {
        /// Bytes per second.
        rate: u64,
    },
    /// A page of a list that cannot be relied on. Only pages that are like that are candidates: those after
    /// which the list goes on, and for [`ListFault::SameToken`] those that were asked for by a token.
    List {
        /// What is wrong with it.
        page: ListFault,
    },
    /// One bit of the object is turned over on its way. Only answers that hold the byte are candidates.
    FlipBit {
        /// Which byte of the object.
        offset: u64,
        /// Which bit of it, 0 to 7.
        #[serde(default)]
        bit: u8,
    },
}

/// What is wrong with a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ListFault {
    /// It says that the list goes on, and gives no token; so does a server that knows only version 1 of the
    /// list.
    NoToken,
    /// It does not say whether the list goes on, and gives no token.
    Silent,
    /// It names the page itself as the next one.
    SameToken,
    /// It has no keys, and goes on; that is a list as it may be.
    NoKeys,
    /// It ends in the middle, and the answer is whole as a message.
    CutOff,
}

impl ListFault {
    fn change(self, page: &str) -> String {
        let next = between(page, "<NextContinuationToken>", "</NextContinuationToken>").unwrap_or_default();
        let token = format!("<NextContinuationToken>{next}</NextContinuationToken>");
        match self {
            ListFault::NoToken => page.replace(&token, ""),
            ListFault::Silent => page.replace(&token, "").replace("<IsTruncated>true</IsTruncated>", ""),
            ListFault::SameToken => {
                let own = between(page, "<ContinuationToken>", "</ContinuationToken>").unwrap_or_default();
                page.replace(&token, &format!("<NextContinuationToken>{own}</NextContinuationToken>"))
            }
            ListFault::NoKeys => match (page.find("<Contents>"), page.rfind("</Contents>")) {
                (Some(from), Some(to)) => format!("{}{}", &page[..from], &page[to + "</Contents>".len()..]),
                _ => page.to_string(),
            },
            ListFault::CutOff => page[..page.find("</Contents>").unwrap_or(0)].to_string(),
        }
    }
}

/// The text between two tags.
fn between<'a>(page: &'a str, open: &str, close: &str) -> Option<&'a str> {
    page.split_once(open)?.1.split_once(close).map(|(text, _)| text)
}

impl Fault {
    /// This status and nothing more.
    pub fn status(code: u16) -> Fault {
        Fault::Status { code, retry_after: None, error: None }
    }

    /// 503 SlowDown, to be asked again after so long.
    pub fn slow_down(retry_after: Duration) -> Fault {
        Fault::Status { code: 503, retry_after: Some(retry_after), error: None }
    }

    /// The answer comes so much later.
    pub fn delay(by: Duration) -> Fault {
        Fault::StallBeforeHead { lasting: Some(by) }
    }

    /// Whether this fault has a meaning for an answer of this kind; `None` stands for a connection without a
    /// request.
    pub(crate) fn fits(&self, operation: Operation, answer: Option<&Answer>) -> bool {
        let Some(answer) = answer else {
            return matches!(self, Fault::Reset | Fault::StallBeforeHead { .. });
        };
        match self {
            Fault::Status { .. } | Fault::Redirect { .. } | Fault::Reset | Fault::StallBeforeHead { .. } => {
                true
            }
            Fault::Gone => matches!(operation, Operation::Get | Operation::Head),
            Fault::ResetAfter { .. }
            | Fault::ShortContentLength
            | Fault::ChunkedEnd { .. }
            | Fault::StallAfter { .. }
            | Fault::Trickle { .. } => answer.sent_length() > 0,
            Fault::Short206
            | Fault::Short206FullContentRange
            | Fault::WrongContentRange
            | Fault::NoContentRange
            | Fault::WholeBody200 => answer.is_partial() && answer.sent_length() > 0,
            Fault::List { page } => answer.page().is_some_and(|text| {
                let goes_on = text.contains("<NextContinuationToken>");
                goes_on && (*page != ListFault::SameToken || text.contains("<ContinuationToken>"))
            }),
            Fault::FlipBit { offset, .. } => answer.object_bytes().contains(offset),
        }
    }

    /// What is said instead of `answer`.
    pub(crate) fn change(&self, mut answer: Answer, request: &Request) -> Answer {
        let head_only = answer.head_only;
        match self {
            Fault::Status { code, retry_after, error } => {
                let code_word = error.as_deref().unwrap_or_else(|| usual_code(*code));
                answer = Answer::error(*code, code_word, "As the rule says.");
                if let Some(wait) = retry_after {
                    answer = answer.header("Retry-After", wait.as_secs_f64().ceil().to_string());
                }
            }
            Fault::Gone => answer = Answer::error(404, "NoSuchKey", "The specified key does not exist."),
            Fault::Redirect { to } => {
                let location = format!("{}{}", to.trim_end_matches('/'), request.target);
                answer =
                    Answer::error(307, "TemporaryRedirect", "Please ask there.").header("Location", location);
            }
            Fault::Short206 => {
                halve(&mut answer.body);
                let span = answer.object_bytes();
                answer.content_range = answer.content_range.map(|(_, size)| (span, size));
            }
            Fault::Short206FullContentRange => halve(&mut answer.body),
            Fault::WrongContentRange => {
                if let Some((span, _)) = &mut answer.content_range {
                    *span = span.start + 1..span.end + 1;
                }
            }
            Fault::NoContentRange => answer.content_range = None,
            Fault::List { page } => {
                if let Some(text) = answer.page().map(|text| page.change(text)) {
                    answer.body = Body::Text(text.into());
                }
            }
            Fault::WholeBody200 => {
                answer.status = 200;
                answer.content_range = None;
                if let Body::Object { span, size, .. } = &mut answer.body {
                    *span = 0..*size;
                }
            }
            _ => {}
        }
        answer.head_only = head_only;
        answer
    }

    /// What to turn over in the body of `answer`: at which offset of the body, and with which mask.
    pub(crate) fn flip(&self, answer: &Answer) -> Option<(u64, u8)> {
        let Fault::FlipBit { offset, bit } = self else { return None };
        Some((offset.checked_sub(answer.object_bytes().start)?, 1 << (bit & 7)))
    }
}

fn halve(body: &mut Body) {
    if let Body::Object { span, .. } = body {
        span.end = span.start + (span.end - span.start) / 2;
    }
}

fn usual_code(status: u16) -> &'static str {
    match status {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "AccessDenied",
        404 => "NoSuchKey",
        412 => "PreconditionFailed",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "SlowDown",
        _ => "Unnamed",
    }
}

/// One step of sending an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// Nothing is sent for so long; `None` is for ever.
    Wait(Option<Duration>),
    /// From here on at so many bytes per second.
    Slow(u64),
    Head(Framing),
    /// These bytes of the body.
    Body(Range<u64>),
    /// These bytes of the body, as chunks.
    Chunks(Range<u64>),
    LastChunk,
    /// RST.
    Reset,
    /// FIN.
    Close,
}

/// How an answer with a body of `length` bytes is sent. After the last act the connection is kept.
pub(crate) fn script(fault: Option<&Fault>, length: u64) -> Vec<Act> {
    use Act::*;
    let (all, half) = (0..length, length / 2);
    let before_the_last = |bytes: u64| bytes.min(length.saturating_sub(1));
    let head = Head(Framing::ContentLength);
    match *match fault {
        Some(fault) => fault,
        None => return vec![head, Body(all)],
    } {
        Fault::Reset => vec![Reset],
        Fault::ResetAfter { bytes } => vec![head, Body(0..before_the_last(bytes)), Reset],
        Fault::ShortContentLength => vec![head, Body(0..half), Close],
        Fault::ChunkedEnd { clean: true } => vec![Head(Framing::Chunked), Chunks(0..half), LastChunk],
        Fault::ChunkedEnd { clean: false } => vec![Head(Framing::Chunked), Chunks(0..half), Close],
        Fault::StallBeforeHead { lasting } => vec![Wait(lasting), head, Body(all)],
        Fault::StallAfter { bytes, lasting } => {
            let pause = before_the_last(bytes);
            vec![head, Body(0..pause), Wait(lasting), Body(pause..length)]
        }
        Fault::Trickle { rate } => vec![Slow(rate), head, Body(all)],
        _ => vec![head, Body(all)],
    }
}
