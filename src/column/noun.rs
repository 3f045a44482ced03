//! What the cells of a column hold, as errors name it.

use forebay_base::{Error, ErrorKind};

/// The kind of content of a cell, as errors name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noun {
    /// With its article: "an image".
    pub(crate) one: &'static str,
    /// "images".
    pub(crate) several: &'static str,
}

impl Noun {
    /// Of any column.
    pub(crate) const VALUE: Noun = Noun { one: "a value", several: "values" };

    /// A null where a cell is to be decoded.
    pub(crate) fn null(self) -> Error {
        Error::new(ErrorKind::BadRow, format!("null where {} is needed", self.one))
            .hint("give a value with `fill_null`, or a mask with `null_mask`")
    }

    /// A value for nulls of a column that has none to deliver, but a mask if it `has_mask`.
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
