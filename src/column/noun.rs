//! The words with which error messages name the content of a cell, such as "an image".

use forebay_base::{Error, ErrorKind};

/// The words for the content of a column's cells in error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noun {
    /// The singular with its article, such as "an image".
    pub(crate) one: &'static str,
    /// The plural, such as "images".
    pub(crate) several: &'static str,
}

impl Noun {
    /// The words for the content of a column of any kind.
    pub(crate) const VALUE: Noun = Noun { one: "a value", several: "values" };

    /// The error for a null where a cell has to be decoded.
    pub(crate) fn null(self) -> Error {
        Error::new(ErrorKind::BadRow, format!("null where {} is needed", self.one))
            .hint("give a value with `fill_null`, or a mask with `null_mask`")
    }

    /// The error for `fill_null` in a column that has no value for nulls; `has_mask` says whether `null_mask`
    /// is possible instead.
    pub(crate) fn no_fill(self, has_mask: bool) -> Error {
        let left_out = format!("rows without {} are left out with `on_bad_row`", self.one);
        Error::invalid(format!("fill_null gives a value for {}, which have none", self.several)).hint(
            match has_mask {
                true => format!("`null_mask` delivers them empty, with a mask that says so; {left_out}"),
                false => left_out,
            },
        )
    }
}
