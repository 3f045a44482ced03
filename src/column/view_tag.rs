//! Separates the random draws of the views of an image.

use forebay_image::RowKey;

use crate::shard::{column_tag, view_key};

/// A tag that separates the random draws of a view from those of the other views of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewTag(u64);

impl ViewTag {
    /// The tag of the view with this name.
    pub(crate) fn for_view(name: &str) -> Self {
        ViewTag(column_tag(name))
    }

    /// The key of image `number` of the view, made from the key of the stored column in a row.
    pub(crate) fn key(self, key: RowKey, number: u32) -> RowKey {
        RowKey(view_key(key.0, self.0, number))
    }
}
