//! Decides which row groups follow each other, so that samples of several rows can continue from one into
//! the next.

use std::ops::Range;

use forebay_store::catalog::{Catalog, File};
use serde::{Deserialize, Serialize};

/// How far a [`Window`](crate::samples::Window) or a [`Pack`](crate::samples::Pack) may continue: to the end
/// of the row group in which it begins, or into later row groups.
///
/// ```
/// use forebay::samples::{Across, Window};
///
/// // The episodes of a file, wherever its row groups end.
/// let window = Window::rows(16).by("time").within("episode").across(Across::File);
/// assert_eq!(Across::default(), Across::RowGroup);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Across {
    /// Samples end with the row group in which they begin.
    #[default]
    RowGroup,
    /// Samples may continue into later row groups of the same file.
    File,
    /// Samples may continue into later row groups of the same file and of the next files, in the order of
    /// their paths, but not into a file whose folders have other keys, such as `year=2025` after `year=2024`.
    Dataset,
}

impl Across {
    /// The names of the variants in Python, in the program and in JSON.
    pub const NAMES: [&str; 3] = ["row_group", "file", "dataset"];

    pub(crate) fn is_row_group(&self) -> bool {
        *self == Across::RowGroup
    }

    /// Divides the row groups into ranges. Samples may continue from one row group of a range into the next,
    /// but not into another range.
    pub(crate) fn sequences(self, catalog: &Catalog) -> Vec<Range<usize>> {
        let mut sequences: Vec<Range<usize>> = Vec::new();
        for (at, group) in catalog.groups.iter().enumerate() {
            let follows = |before: usize| match (self, catalog.groups[before].file) {
                (Across::RowGroup, _) => false,
                (_, file) if file == group.file => true,
                (Across::File, _) => false,
                (Across::Dataset, file) => have_equal_keys(&catalog.files[file], &catalog.files[group.file]),
            };
            match sequences.last_mut().filter(|_| follows(at - 1)) {
                Some(sequence) => sequence.end = at + 1,
                None => sequences.push(at..at + 1),
            }
        }
        sequences
    }
}

/// Whether two files agree in every column whose value is constant for a file, such as the keys of their
/// folders.
fn have_equal_keys(one: &File, other: &File) -> bool {
    one.constants.iter().all(|constant| {
        let mut others = other.constants.iter().filter(|it| it.field.name() == constant.field.name());
        others.all(|it| *it.value == *constant.value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_has_one_name_in_text_and_json() {
        let named = Across::NAMES.map(|name| serde_json::from_str::<Across>(&format!("{name:?}")).unwrap());
        assert_eq!(named, [Across::RowGroup, Across::File, Across::Dataset]);
    }
}
