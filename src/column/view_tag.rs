//! Tells the draws of the views of an image apart.

use forebay_image::RowKey;

use crate::shard::{column_tag, view_key};

/// Separates the draws of a view from those of the other views of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewTag(u64);

impl ViewTag {
    /// The tag of the view with this name.
    pub(crate) fn of(name: &str) -> Self {
        ViewTag(column_tag(name))
    }

    /// The key of one of its images, from the key of the stored column in a row.
    pub(crate) fn key(self, key: RowKey, number: u32) -> RowKey {
        RowKey(view_key(key.0, self.0, number))
    }
}
