//! Versions of objects, as listings and answers describe them.

use object_store::ObjectMeta;

use crate::snapshot::{FileVersion, Pin};

impl Pin {
    /// The pin of a file, from its metadata in a listing or an answer.
    pub(in crate::source) fn from_meta(meta: &ObjectMeta) -> Self {
        Pin { path: meta.location.clone(), size: meta.size, version: version_of(meta) }
    }

    pub(super) fn if_match(&self) -> Option<String> {
        match &self.version {
            // A weak tag never matches. Quotes are part of the tag in requests, but not in every listing.
            FileVersion::ETag(tag) if !tag.starts_with("W/") => Some(format!("\"{}\"", bare(tag))),
            _ => None,
        }
    }

    /// Whether an answer is about this version of the object, according to what it says.
    pub(super) fn agrees(&self, meta: &ObjectMeta) -> bool {
        match (&self.version, &meta.e_tag) {
            (FileVersion::ETag(tag), Some(now)) => bare(tag) == bare(now),
            (FileVersion::Modified(_), _) => {
                FileVersion::Modified(nanoseconds(meta)) == self.version
                    || meta.last_modified.timestamp() == 0
            }
            _ => true,
        }
    }
}

/// The version of an object, which distinguishes it from the next one.
pub(super) fn version_of(meta: &ObjectMeta) -> FileVersion {
    match &meta.e_tag {
        Some(tag) => FileVersion::ETag(bare(tag).into()),
        None => FileVersion::Modified(nanoseconds(meta)),
    }
}

fn bare(tag: &str) -> &str {
    tag.trim_start_matches("W/").trim_matches('"')
}

fn nanoseconds(meta: &ObjectMeta) -> i128 {
    let time = meta.last_modified;
    i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos())
}
