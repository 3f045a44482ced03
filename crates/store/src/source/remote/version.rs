//! Identifies the version of an object by its entity tag, or else by its modification time.

use object_store::ObjectMeta;

use crate::snapshot::{FileVersion, Pin};

impl Pin {
    /// Makes the pin of a file (its path, size and version) from the metadata in a listing or a response.
    pub(in crate::source) fn from_meta(meta: &ObjectMeta) -> Self {
        Pin { path: meta.location.clone(), size: meta.size, version: version_of(meta) }
    }

    pub(super) fn if_match(&self) -> Option<String> {
        match &self.version {
            // Weak tags are left out, because they never match. Requests need quotes around the tag.
            FileVersion::ETag(tag) if !tag.starts_with("W/") => Some(format!("\"{}\"", bare(tag))),
            _ => None,
        }
    }

    /// Whether the metadata in a response can be those of this version of the object.
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

/// The version of an object: its entity tag or, without one, its modification time.
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
