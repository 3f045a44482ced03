//! ListObjectsV2: the keys under a prefix, one page at a time.

use std::collections::VecDeque;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::answer::Answer;
use crate::request::Request;
use crate::store::Store;
use crate::{date, held};

/// The number of keys on a page of S3, which is also the default.
pub(crate) const PAGE: usize = 1_000;
/// How many listings can be continued at a time. A further listing replaces the oldest.
const SNAPSHOTS: usize = 64;
/// The characters that `encoding-type=url` does not encode.
const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The listings in progress. The folder is walked once for all pages of a listing.
pub(crate) struct Listings {
    page: usize,
    snapshots: Mutex<Snapshots>,
}

#[derive(Default)]
struct Snapshots {
    next: u64,
    kept: VecDeque<(u64, Arc<Vec<String>>)>,
}

impl Listings {
    /// Listings with at most `page` keys and common prefixes on a page.
    pub(crate) fn new(page: usize) -> Listings {
        Listings { page, snapshots: Mutex::default() }
    }

    fn keep(&self, keys: Arc<Vec<String>>) -> u64 {
        let mut snapshots = held(&self.snapshots);
        let id = snapshots.next;
        snapshots.next += 1;
        if snapshots.kept.len() == SNAPSHOTS {
            snapshots.kept.pop_front();
        }
        snapshots.kept.push_back((id, keys));
        id
    }

    fn find(&self, id: u64) -> Option<Arc<Vec<String>>> {
        held(&self.snapshots).kept.iter().find(|(known, _)| *known == id).map(|(_, keys)| keys.clone())
    }
}

impl Store {
    /// One page of the keys in a bucket.
    pub(crate) fn list(&self, request: &Request, bucket: &str) -> Answer {
        if request.parameter("list-type").as_deref() != Some("2") {
            return Answer::error(501, "NotImplemented", "Only ListObjectsV2 is spoken here.");
        }
        let prefix = request.parameter("prefix").unwrap_or_default();
        let delimiter = request.parameter("delimiter").filter(|delimiter| !delimiter.is_empty());
        let asked = request.parameter("max-keys").and_then(|keys| keys.parse().ok()).unwrap_or(PAGE);
        let token = request.parameter("continuation-token");
        let (id, keys, start) = match &token {
            Some(token) => match self.continued(token) {
                Some((id, keys, start)) => (Some(id), keys, start),
                None => return Answer::error(400, "InvalidArgument", "The continuation token is not known."),
            },
            None => {
                let after = request.parameter("start-after").unwrap_or_default();
                let root = self.folders.get(bucket);
                let mut keys = root.map_or_else(Vec::new, |root| keys(root, &prefix, &after));
                let is_asked = |mark: &&str| mark.starts_with(&prefix) && *mark > after.as_str();
                keys.extend(self.marks(bucket).filter(is_asked).map(str::to_owned));
                keys.sort_unstable();
                (None, Arc::new(keys), 0)
            }
        };
        let page = page(&keys[start..], &prefix, delimiter.as_deref(), asked.min(self.listings.page));
        let next = start + page.taken;
        let next_token = (next < keys.len()).then(|| {
            let id = id.unwrap_or_else(|| self.listings.keep(keys.clone()));
            format!("{id}.{next}")
        });

        let url_encoded = request.parameter("encoding-type").as_deref() == Some("url");
        let name = |key: &str| match url_encoded {
            true => utf8_percent_encode(key, UNRESERVED).to_string(),
            false => escape(key),
        };
        let mut xml = Xml::new();
        xml.tag("Name", &escape(bucket));
        xml.tag("Prefix", &name(&prefix));
        if url_encoded {
            xml.tag("EncodingType", "url");
        }
        if let Some(delimiter) = &delimiter {
            xml.tag("Delimiter", &name(delimiter));
        }
        xml.tag("MaxKeys", &asked.to_string());
        xml.tag("IsTruncated", if next_token.is_some() { "true" } else { "false" });
        if let Some(token) = &token {
            xml.tag("ContinuationToken", token);
        }
        if let Some(token) = &next_token {
            xml.tag("NextContinuationToken", token);
        }
        let mut count = page.common.len();
        for key in page.keys {
            let Some(metadata) = self.folders.get(bucket).and_then(|root| fs::metadata(root.join(key)).ok())
            else {
                // The file was deleted since the listing began.
                continue;
            };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            count += 1;
            xml.open("Contents");
            xml.tag("Key", &name(key));
            xml.tag("LastModified", &date::iso(modified));
            xml.tag("ETag", &escape(&self.etag(bucket, key, &metadata)));
            xml.tag("Size", &if key.ends_with('/') { 0 } else { metadata.len() }.to_string());
            xml.tag("StorageClass", "STANDARD");
            xml.close("Contents");
        }
        for common in &page.common {
            xml.open("CommonPrefixes");
            xml.tag("Prefix", &name(common));
            xml.close("CommonPrefixes");
        }
        xml.tag("KeyCount", &count.to_string());
        Answer::text(200, "application/xml", xml.finish())
    }

    fn continued(&self, token: &str) -> Option<(u64, Arc<Vec<String>>, usize)> {
        let (id, start) = token.split_once('.')?;
        let (id, start) = (id.parse().ok()?, start.parse().ok()?);
        let keys = self.listings.find(id)?;
        (start <= keys.len()).then_some((id, keys, start))
    }
}

struct ListPage<'a> {
    keys: Vec<&'a str>,
    common: Vec<&'a str>,
    /// How many of the keys the page used up.
    taken: usize,
}

/// The first `limit` of the sorted `keys`. Keys with the same text before the next delimiter count as one.
fn page<'a>(keys: &'a [String], prefix: &str, delimiter: Option<&str>, limit: usize) -> ListPage<'a> {
    let mut page = ListPage { keys: Vec::new(), common: Vec::new(), taken: 0 };
    while page.taken < keys.len() && page.keys.len() + page.common.len() < limit {
        let key = keys[page.taken].as_str();
        let end =
            delimiter.and_then(|delimiter| Some(key[prefix.len()..].find(delimiter)? + delimiter.len()));
        match end {
            Some(end) => {
                let common = &key[..prefix.len() + end];
                page.taken += keys[page.taken..].iter().take_while(|key| key.starts_with(common)).count();
                page.common.push(common);
            }
            None => {
                page.taken += 1;
                page.keys.push(key);
            }
        }
    }
    page
}

/// All keys that begin with `prefix` and come after `after`, sorted by bytes as S3 sorts them.
fn keys(root: &Path, prefix: &str, after: &str) -> Vec<String> {
    // Only the folder that the prefix leads to is walked.
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut folders = vec![folder.to_string()];
    if folder.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let mut keys = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let key = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => {
                    fs::metadata(entry.path()).map(|metadata| metadata.file_type())
                }
                kind => kind,
            };
            match kind {
                Ok(kind) if kind.is_dir() => folders.push(key),
                Ok(kind) if kind.is_file() && key.starts_with(prefix) && key.as_str() > after => {
                    keys.push(key)
                }
                _ => {}
            }
        }
    }
    keys.sort_unstable();
    keys
}

struct Xml(String);

impl Xml {
    fn new() -> Xml {
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
        Xml(format!("{head}<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"))
    }

    fn open(&mut self, name: &str) {
        let _ = write!(self.0, "<{name}>");
    }

    fn close(&mut self, name: &str) {
        let _ = write!(self.0, "</{name}>");
    }

    /// Writes a value that is already escaped.
    fn tag(&mut self, name: &str, value: &str) {
        let _ = write!(self.0, "<{name}>{value}</{name}>");
    }

    fn finish(mut self) -> String {
        self.close("ListBucketResult");
        self.0
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_a_common_prefix_and_pages_go_on_after_it() {
        let keys = ["a", "b/1", "b/2", "b/3", "c", "d/1"].map(String::from);
        let first = page(&keys, "", Some("/"), 2);
        assert_eq!((first.keys, first.common, first.taken), (vec!["a"], vec!["b/"], 4));
        let rest = page(&keys[4..], "", Some("/"), 2);
        assert_eq!((rest.keys, rest.common, rest.taken), (vec!["c"], vec!["d/"], 2));
        assert_eq!(page(&keys, "", None, 4).keys, ["a", "b/1", "b/2", "b/3"]);
        assert_eq!(page(&keys[1..4], "b/", Some("/"), 9).keys, ["b/1", "b/2", "b/3"]);
    }
}
