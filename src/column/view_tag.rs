//! Gives each view of an image its own random values, for instance for crops, which do not depend on the
//! other views.

use forebay_image::RowKey;

use crate::shard::{column_tag, view_key};

/// A number, made from a view's name, that gives the view random draws of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewTag(u64);

impl ViewTag {
    /// The tag of the view with this name.
    pub(crate) fn for_view(name: &str) -> Self {
        ViewTag(column_tag(name))
    }

    /// The key for the random draws of image `number` of the view. `key` is the key of the row in the stored
    /// column.
    pub(crate) fn key(self, key: RowKey, number: u32) -> RowKey {
        RowKey(view_key(key.0, self.0, number))
    }
}
