//! An answer as a plain value, as the store gives it before any fault.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use crate::date;

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// All headers except those that describe the body and its place in an object.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The range of the object's bytes that the body claims to hold, and the size of the object.
    pub(crate) content_range: Option<(Range<u64>, u64)>,
    pub(crate) body: Body,
    /// Whether this answers a HEAD request: the body is announced and not sent.
    pub(crate) head_only: bool,
}

pub(crate) enum Body {
    Text(Vec<u8>),
    /// The bytes in `span` of an object of `size` bytes.
    Object {
        file: File,
        span: Range<u64>,
        size: u64,
    },
}

/// How the receiver learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    ContentLength,
    Chunked,
}

impl Answer {
    pub(crate) fn text(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        let headers = vec![("Content-Type", kind.to_string())];
        Answer { status, headers, content_range: None, body: Body::Text(body.into()), head_only: false }
    }

    /// An error in the form that S3 uses.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Answer {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>\
             <RequestId>fault-server</RequestId></Error>"
        );
        Answer::text(status, "application/xml", body)
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// The text of a page of a list, if the answer is one.
    pub(crate) fn page(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => {
                std::str::from_utf8(text).ok().filter(|text| text.contains("<ListBucketResult"))
            }
            Body::Object { .. } => None,
        }
    }

    /// The number of bytes that are sent after the head.
    pub(crate) fn sent_length(&self) -> u64 {
        if self.head_only { 0 } else { self.body.length() }
    }

    /// Whether the answer is a part of an object that was requested by range.
    pub(crate) fn is_partial(&self) -> bool {
        self.content_range.is_some()
    }

    /// The bytes of the object that are sent; empty if the body is not an object's.
    pub(crate) fn object_bytes(&self) -> Range<u64> {
        match &self.body {
            Body::Object { span, .. } if !self.head_only => span.clone(),
            _ => 0..0,
        }
    }

    pub(crate) fn head(&self, framing: Framing, number: u64) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let mut add = |name: &str, value: &str| {
            head.extend([name, ": ", value, "\r\n"]);
        };
        add("Date", &date::http(SystemTime::now()));
        add("Server", "fault-server");
        add("x-amz-request-id", &format!("{number:016X}"));
        for (name, value) in &self.headers {
            add(name, value);
        }
        if let Some((span, size)) = &self.content_range {
            add("Content-Range", &format!("bytes {}-{}/{size}", span.start, span.end.saturating_sub(1)));
        }
        match framing {
            Framing::ContentLength => add("Content-Length", &self.body.length().to_string()),
            Framing::Chunked => add("Transfer-Encoding", "chunked"),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

impl Body {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Body::Text(text) => text.len() as u64,
            Body::Object { span, .. } => span.end - span.start,
        }
    }

    /// Fills `buffer` with the body's bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Body::Text(text) => buffer.copy_from_slice(&text[offset as usize..][..buffer.len()]),
            Body::Object { file, span, .. } => file.read_exact_at(buffer, span.start + offset)?,
        }
        Ok(())
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Slow Down",
        504 => "Gateway Timeout",
        _ => "Unnamed",
    }
}
