//! The answers that S3 would give: objects, ranges and conditions.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Body};
use crate::list::Listings;
use crate::request::{Operation, Request};
use crate::{date, held};

/// The credentials that a request must carry. Signatures are not checked.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    access_key_id: String,
    #[serde(default)]
    session_token: Option<String>,
}

impl Credentials {
    /// Credentials with this access key id in the header `Authorization`.
    pub fn new(access_key_id: impl Into<String>) -> Credentials {
        Credentials { access_key_id: access_key_id.into(), session_token: None }
    }

    /// Also requires this value of the header `x-amz-security-token`.
    pub fn session_token(mut self, token: impl Into<String>) -> Credentials {
        self.session_token = Some(token.into());
        self
    }
}

pub(crate) struct Store {
    /// The folder of each bucket.
    pub(crate) folders: BTreeMap<String, PathBuf>,
    pub(crate) listings: Listings,
    /// The empty objects that mark folders, as `bucket/key`. Their keys end in a slash.
    marks: Vec<String>,
    credentials: Mutex<Option<Credentials>>,
    /// ETags that differ from those of the files, by bucket and key.
    etags: Mutex<HashMap<String, String>>,
}

impl Store {
    pub(crate) fn new(folders: BTreeMap<String, PathBuf>, marks: Vec<String>, page: usize) -> Store {
        let (credentials, etags) = (Mutex::default(), Mutex::default());
        Store { folders, listings: Listings::new(page), marks, credentials, etags }
    }

    /// The keys that mark folders of a bucket.
    pub(crate) fn marks(&self, bucket: &str) -> impl Iterator<Item = &str> {
        self.marks.iter().filter_map(move |mark| mark.strip_prefix(bucket)?.strip_prefix('/'))
    }

    pub(crate) fn require(&self, credentials: Option<Credentials>) {
        *held(&self.credentials) = credentials;
    }

    pub(crate) fn set_etag(&self, path: String, etag: Option<String>) {
        let mut etags = held(&self.etags);
        match etag {
            Some(etag) => etags.insert(path, etag),
            None => etags.remove(&path),
        };
    }

    /// The answer to a request without any fault.
    pub(crate) fn answer(&self, request: &Request, body: &[u8]) -> Answer {
        let answer = self.refusal(request).unwrap_or_else(|| self.look_up(request, body));
        Answer { head_only: request.method == "HEAD", ..answer }
    }

    fn look_up(&self, request: &Request, body: &[u8]) -> Answer {
        let (bucket, key) = request.bucket_and_key();
        match (request.operation(), key) {
            (Operation::Other | Operation::Connect, _) => {
                Answer::error(501, "NotImplemented", "This store lists, reads and takes whole objects.")
            }
            _ if !self.folders.contains_key(bucket) => {
                Answer::error(404, "NoSuchBucket", "The specified bucket does not exist.")
            }
            (Operation::Put, Some(key)) => self.put(bucket, &key, body),
            (Operation::Head, None) => Answer::text(200, "application/xml", ""),
            (_, Some(key)) => self.object(request, bucket, &key),
            (_, None) => self.list(request, bucket),
        }
    }

    /// Refuses a request that does not carry the required credentials. S3 itself answers 400 ExpiredToken for
    /// a token that was valid before; a rule with that status does the same.
    fn refusal(&self, request: &Request) -> Option<Answer> {
        let credentials = held(&self.credentials).clone()?;
        if request.access_key_id() != Some(&credentials.access_key_id) {
            return Some(Answer::error(403, "InvalidAccessKeyId", "The access key id is not known."));
        }
        let token = credentials.session_token?;
        (request.header("x-amz-security-token") != Some(&token))
            .then(|| Answer::error(403, "ExpiredToken", "The provided token has expired."))
    }

    fn object(&self, request: &Request, bucket: &str, key: &str) -> Answer {
        let opened = self.file(bucket, key).and_then(|path| File::open(path).ok());
        let found = opened.and_then(|file| {
            let metadata = file.metadata().ok().filter(Metadata::is_file)?;
            Some((file, metadata))
        });
        let Some((file, metadata)) = found else {
            return Answer::error(404, "NoSuchKey", "The specified key does not exist.");
        };
        let (size, etag) = (metadata.len(), self.etag(bucket, key, &metadata));
        let named = |header| request.header(header).map(|tags| names(tags, &etag));
        if named("if-match") == Some(false) {
            return Answer::error(412, "PreconditionFailed", "If-Match");
        }
        let (status, span) =
            match request.header("range").map_or(StoreRequest::Whole, |range| asked(range, size)) {
                StoreRequest::Whole => (200, 0..size),
                StoreRequest::Part(span) => (206, span),
                StoreRequest::Nothing => {
                    return Answer::error(416, "InvalidRange", "The requested range is not satisfiable")
                        .header("Content-Range", format!("bytes */{size}"));
                }
            };
        let not_modified = named("if-none-match") == Some(true);
        let mut answer = match not_modified {
            true => Answer { status: 304, headers: Vec::new(), ..Answer::text(304, "", "") },
            false => Answer {
                content_range: (status == 206).then(|| (span.clone(), size)),
                body: Body::Object { file, span, size },
                ..Answer::text(status, "application/octet-stream", "")
            },
        };
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        answer = answer.header("ETag", etag).header("Last-Modified", date::http(modified));
        answer.header("Accept-Ranges", "bytes")
    }

    /// Writes an object, which may replace an existing one.
    fn put(&self, bucket: &str, key: &str, body: &[u8]) -> Answer {
        let refused = || Answer::error(400, "InvalidArgument", "The key is not that of a file.");
        let Some(path) = self.file(bucket, key) else { return refused() };
        let written = path.with_extension("unfinished");
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&written, body)?;
            fs::rename(&written, &path)?;
            fs::metadata(&path)
        };
        match write() {
            Ok(metadata) => {
                Answer::text(200, "application/xml", "").header("ETag", self.etag(bucket, key, &metadata))
            }
            Err(_) => refused(),
        }
    }

    /// The file of a key; `None` if the key could lead out of the bucket's folder or cannot be the name of a
    /// file.
    fn file(&self, bucket: &str, key: &str) -> Option<PathBuf> {
        let plain = key.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        (plain && !key.contains('\0')).then_some(self.folders.get(bucket)?.join(key))
    }

    /// The identity of an object's content, as far as the file system shows it. It differs for another file
    /// under the same name, and for a file that was rewritten.
    pub(crate) fn etag(&self, bucket: &str, key: &str, metadata: &Metadata) -> String {
        if let Some(etag) = held(&self.etags).get(&format!("{bucket}/{key}")) {
            return format!("\"{etag}\"");
        }
        let mut hasher = DefaultHasher::new();
        (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino()).hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// Whether a list of ETags, as in `If-Match`, contains this one.
fn names(tags: &str, etag: &str) -> bool {
    let bare = etag.trim_matches('"');
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_matches('"') == bare)
}

#[derive(Debug, PartialEq)]
enum StoreRequest {
    /// The request has no range, or one that S3 ignores.
    Whole,
    Part(Range<u64>),
    /// The range begins after the end of the object.
    Nothing,
}

/// The bytes of an object of `size` bytes that a `Range` header requests.
fn asked(range: &str, size: u64) -> StoreRequest {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return StoreRequest::Whole;
    };
    let span = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..size.min(last.saturating_add(1)),
        (Ok(first), Err(_)) if last.is_empty() => first..size,
        (Err(_), Ok(suffix)) if first.is_empty() => size.saturating_sub(suffix)..size,
        _ => return StoreRequest::Whole,
    };
    if span.start < span.end { StoreRequest::Part(span) } else { StoreRequest::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_rfc_9110_says() {
        for (header, expected) in [
            ("bytes=0-0", StoreRequest::Part(0..1)),
            ("bytes=2-5", StoreRequest::Part(2..6)),
            ("bytes=2-500", StoreRequest::Part(2..10)),
            ("bytes=2-18446744073709551615", StoreRequest::Part(2..10)),
            ("bytes=4-", StoreRequest::Part(4..10)),
            ("bytes=-3", StoreRequest::Part(7..10)),
            ("bytes=-30", StoreRequest::Part(0..10)),
            ("bytes=-0", StoreRequest::Nothing),
            ("bytes=10-", StoreRequest::Nothing),
            ("bytes=10-12", StoreRequest::Nothing),
            ("bytes=5-2", StoreRequest::Whole),
            ("bytes=0-1,4-5", StoreRequest::Whole),
            ("rows=0-1", StoreRequest::Whole),
        ] {
            assert_eq!(asked(header, 10), expected, "{header}");
        }
    }

    #[test]
    fn a_condition_names_one_or_several_versions() {
        assert!(
            names("\"a\"", "\"a\"")
                && names("a", "\"a\"")
                && names("\"b\", \"a\"", "\"a\"")
                && names("*", "\"a\"")
        );
        assert!(!names("\"b\"", "\"a\"") && !names("", "\"a\""));
    }
}
