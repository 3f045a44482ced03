//! The head of a request as a plain value.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

/// The operation of a request, as far as faults and counts distinguish requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operation {
    /// A connection was accepted, without a request so far.
    Connect,
    /// One page of keys: ListObjectsV2.
    List,
    /// HeadObject or HeadBucket.
    Head,
    /// GetObject, for a whole object or a range.
    Get,
    /// A whole object is written.
    Put,
    /// Any other request: an upload in parts, a deletion, or a path without a bucket.
    Other,
}

/// The most headers that a request may have; SDKs send about fifteen.
const HEADERS: usize = 64;

pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and query as they were sent.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// Parses the request at the beginning of `bytes`. Also returns the length of its head; `None` if more
    /// bytes are needed.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = head.parse(bytes)? else { return Ok(None) };
        let headers = head.headers.iter();
        let request = Request {
            method: head.method.unwrap_or_default().to_string(),
            target: head.path.unwrap_or_default().to_string(),
            headers: headers
                .map(|header| {
                    (header.name.to_string(), String::from_utf8_lossy(header.value).trim().to_string())
                })
                .collect(),
        };
        Ok(Some((request, length)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// The path without its leading slash, still percent-encoded.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default().trim_start_matches('/')
    }

    /// The bucket, and the key if the path has one.
    pub(crate) fn bucket_and_key(&self) -> (&str, Option<Cow<'_, str>>) {
        match self.path().split_once('/') {
            Some((bucket, key)) if !key.is_empty() => {
                (bucket, Some(percent_decode_str(key).decode_utf8_lossy()))
            }
            Some((bucket, _)) => (bucket, None),
            None => (self.path(), None),
        }
    }

    /// One parameter of the query. A plus is a space, as in S3.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?')?.1;
        let (_, value) =
            query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
        Some(percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned())
    }

    pub(crate) fn operation(&self) -> Operation {
        match (self.method.as_str(), self.bucket_and_key()) {
            ("HEAD", (bucket, _)) if !bucket.is_empty() => Operation::Head,
            ("GET", (_, Some(_))) => Operation::Get,
            ("PUT", (_, Some(_))) => Operation::Put,
            ("GET", (bucket, None)) if !bucket.is_empty() => Operation::List,
            _ => Operation::Other,
        }
    }

    /// The access key id of a signed request.
    pub(crate) fn access_key_id(&self) -> Option<&str> {
        self.header("authorization")?.split_once("Credential=")?.1.split('/').next()
    }

    /// Whether the request is for the control interface, not for the store.
    pub(crate) fn is_control(&self) -> bool {
        self.path().starts_with('_')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Request {
        Request::parse(head.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn a_request_is_read_as_s3_reads_it() {
        let request = parsed(
            "GET /bucket/a%20b/c+d?list-type=2&prefix=x%2Fy+z HTTP/1.1\r\nRange:  bytes=1-2 \r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=AKIA/20280229/us-east-1/s3/aws4_request, Signature=0\r\n\r\n",
        );
        assert_eq!(request.bucket_and_key(), ("bucket", Some("a b/c+d".into())));
        assert_eq!(request.parameter("prefix").as_deref(), Some("x/y z"));
        assert_eq!(request.header("range"), Some("bytes=1-2"));
        assert_eq!(request.access_key_id(), Some("AKIA"));
    }

    #[test]
    fn the_path_and_the_method_say_the_operation() {
        for (line, operation) in [
            ("GET /bucket?list-type=2", Operation::List),
            ("GET /bucket/", Operation::List),
            ("GET /bucket/key", Operation::Get),
            ("HEAD /bucket/key", Operation::Head),
            ("HEAD /bucket", Operation::Head),
            ("GET /", Operation::Other),
            ("PUT /bucket/key", Operation::Put),
            ("PUT /bucket", Operation::Other),
        ] {
            assert_eq!(parsed(&format!("{line} HTTP/1.1\r\n\r\n")).operation(), operation, "{line}");
        }
    }

    #[test]
    fn half_a_head_is_not_a_request() {
        assert!(Request::parse(b"GET /bucket/key HTTP/1.1\r\nHost: x\r\n").unwrap().is_none());
    }
}
