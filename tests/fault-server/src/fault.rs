//! Faults, named after their appearance on the wire.
//!
//! A fault may change the answer ([`Fault::change`]), and may change the script for sending it ([`script`]).
//! Both are plain values, so this file is the whole list of what can happen.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Body, Framing};
use crate::request::{Operation, Request};

/// One way to misbehave. In JSON it is `"reset"` or `{"stall_after": {"bytes": 4096, "lasting": 2.5}}`;
/// durations are seconds.
///
/// A fault never acts on a request for which it has no meaning, such as a wrong `Content-Range` where no
/// range was requested: that request is not a candidate for its rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// Answers with this status instead of the object, with S3's error document.
    Status {
        /// The status, such as 500, 503, 429 or 403.
        code: u16,
        /// The header `Retry-After`, in whole seconds.
        #[serde(default, with = "crate::seconds::maybe")]
        retry_after: Option<Duration>,
        /// S3's own code, such as `ExpiredToken`. Default: the usual code of the status.
        #[serde(default)]
        error: Option<String>,
    },
    /// Answers 404 NoSuchKey, as if the object had been deleted.
    Gone,
    /// Answers 307 with this base URL, and with the path and query of the request.
    Redirect {
        /// The base URL, such as `http://127.0.0.1:9000`.
        to: String,
    },
    /// Resets the connection (RST) before the first byte of the answer.
    Reset,
    /// Resets the connection after this many bytes of the body.
    ResetAfter {
        /// The number of bytes; at least one byte of the body is always left out.
        bytes: u64,
    },
    /// Sends a `Content-Length` for the whole body, then half of the body and an orderly end of the
    /// connection (FIN).
    ShortContentLength,
    /// Sends half of the body in chunked encoding, then ends the body or the connection.
    ChunkedEnd {
        /// Whether the last, empty chunk is sent, so that nothing on the wire shows that bytes are missing.
        /// Otherwise the connection ends (FIN) inside the body.
        clean: bool,
    },
    /// Answers 206 with the first half of the range, and a `Content-Range` that says so.
    Short206,
    /// Answers 206 with the first half of the range and the `Content-Length` of this half, but with the
    /// `Content-Range` of the whole range.
    Short206FullContentRange,
    /// Answers 206 with the right bytes, and a `Content-Range` that begins and ends one byte later.
    WrongContentRange,
    /// Answers 206 with the right bytes and without a `Content-Range`.
    NoContentRange,
    /// Answers a request for a range with status 200 and the whole object.
    WholeBody200,
    /// Sends nothing for a while, not even the status, and then the right answer.
    StallBeforeHead {
        /// How long nothing is sent; `None` lasts until the client goes away.
        #[serde(default, with = "crate::seconds::maybe")]
        lasting: Option<Duration>,
    },
    /// Sends nothing for a while after this many bytes of the body, and then the rest.
    StallAfter {
        /// The number of bytes; at least one byte of the body is always left for later.
        bytes: u64,
        /// How long nothing is sent; `None` lasts until the client goes away.
        #[serde(default, with = "crate::seconds::maybe")]
        lasting: Option<Duration>,
    },
    /// Sends the body at this rate, which is slow but never stops.
    Trickle {
        /// The rate, in bytes per second.
        rate: u64,
    },
    /// Sends a page of a list that is wrong. Only pages that can be wrong in this way are candidates: those
    /// after which the list continues, and for [`ListFault::SameToken`] those that were requested by a token.
    List {
        /// The fault of the page.
        page: ListFault,
    },
    /// Flips one bit of the object on its way. Only answers that contain the byte are candidates.
    FlipBit {
        /// The offset of the byte in the object.
        offset: u64,
        /// The bit of the byte, from 0 to 7.
        #[serde(default)]
        bit: u8,
    },
}

/// A fault of a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ListFault {
    /// The page says that the list continues, but has no token, like a server that knows only version 1 of
    /// the list.
    NoToken,
    /// The page does not say whether the list continues, and has no token.
    Silent,
    /// The page names itself as the next page.
    SameToken,
    /// The page has no keys, and the list continues, which is valid.
    NoKeys,
    /// The XML of the page breaks off in the middle, but the HTTP message is complete.
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
    /// A fault that answers with this status and nothing more.
    pub fn status(code: u16) -> Fault {
        Fault::Status { code, retry_after: None, error: None }
    }

    /// A fault that answers 503 SlowDown, with a time to wait before the next request.
    pub fn slow_down(retry_after: Duration) -> Fault {
        Fault::Status { code: 503, retry_after: Some(retry_after), error: None }
    }

    /// A fault that delays the answer.
    pub fn delay(by: Duration) -> Fault {
        Fault::StallBeforeHead { lasting: Some(by) }
    }

    /// Whether the fault has a meaning for an answer of this kind; `None` stands for a connection without a
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

    /// Returns the answer that this fault sends in place of `answer`.
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

    /// The bit to flip in the body of `answer`: the offset in the body, and a mask.
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
    /// Send nothing for a while; `None` lasts for ever.
    Wait(Option<Duration>),
    /// Send at most this many bytes per second from here on.
    Slow(u64),
    Head(Framing),
    /// Send these bytes of the body.
    Body(Range<u64>),
    /// Send these bytes of the body as chunks.
    Chunks(Range<u64>),
    LastChunk,
    /// Reset the connection (RST).
    Reset,
    /// Close the connection in an orderly way (FIN).
    Close,
}

/// The steps of sending an answer with a body of `length` bytes. The connection stays open after the last
/// step, unless that step resets or closes it.
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
