//! The option `null_mask`: columns whose nulls are filled with a value, and the masks that mark these nulls.

use std::collections::HashSet;
use std::sync::Arc;

use forebay_arrow::datatypes::{Field, Schema};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::places::of_column;
use super::plain::gatherer;
use crate::column::{
    Codec, Column, Declared, Fill, MaskedCodec, NullMaskCodec, NullOptions, Pad, masked_fill,
};

/// The columns for which a mask marks the nulls.
pub(super) type Masked<'a> = [&'a Field];

impl LoaderBuilder {
    /// The columns for which a mask marks the nulls, in the order of delivery. A pattern matches only columns
    /// that can have a mask.
    pub(super) fn null_masked<'a>(&self, read: &'a Schema, declared: &Declared) -> Result<Vec<&'a Field>> {
        let mut chosen = HashSet::new();
        let stored = &self.dataset.catalog.schema;
        for (at, name) in self.spec.null_mask.iter().enumerate() {
            // An existing name is not a pattern, even if it has characters such as `*`.
            let is_there = stored.column_with_name(name).or(read.column_with_name(name)).is_some();
            if is_there || !is_pattern(name) {
                self.read_column(read, name, "null_mask")?;
                if self.spec.null_mask[..at].contains(name) {
                    let cause = format!("null_mask lists column {name:?} twice, again at place {}", at + 1);
                    return Err(Error::invalid(cause));
                }
                chosen.insert(name.as_str());
                continue;
            }
            let matching = read.fields().iter().filter(|field| matches_name(name, field.name()));
            let matching: Vec<&Field> = matching.map(AsRef::as_ref).collect();
            if matching.is_empty() {
                let cause = format!("null_mask: no column that is read matches {name:?}");
                return Err(Error::new(ErrorKind::UnknownColumn, cause)
                    .hint("`*` and `?` stand for any characters, `[0-9]` for one of several"));
            }
            let asked = self.asked_for(read, &[])?;
            let takes = |field: &&&Field| match asked.get(field.name().as_str()) {
                Some(column) => column.codec.takes_mask(),
                None => self.masked(declared, field).is_ok(),
            };
            let fitting: Vec<&Field> = matching.iter().filter(takes).copied().collect();
            // If none of the matching columns can have a mask, all of them are chosen, so that a later check
            // can say why.
            let meant = if fitting.is_empty() { matching } else { fitting };
            chosen.extend(meant.into_iter().map(|field| field.name().as_str()));
        }
        let fields = read.fields().iter().map(AsRef::as_ref);
        Ok(fields.filter(|field: &&Field| chosen.contains(field.name().as_str())).collect())
    }

    /// How the nulls of a column are handled: its value for nulls, and whether a mask marks them.
    pub(super) fn null_options(&self, name: &str, masked: &Masked<'_>) -> NullOptions<'_> {
        let is_masked = masked.iter().any(|field| field.name() == name);
        NullOptions { fill: self.fill(name), is_masked }
    }

    /// Makes a column that has a value in place of each null, and for which a mask marks the nulls.
    pub(super) fn masked(&self, declared: &Declared, stored: &Field) -> Result<Column> {
        let given = self.fill(stored.name());
        let at = |error: Error| error.at(of_column(stored.name()));
        if let Some(codec) = declared.masked_codec(stored, given) {
            return Column::with_codec(codec.map_err(at)?, stored).map_err(at);
        }
        if let Some(empty) = self.fill_of_arrays(stored) {
            let fill = given.cloned().unwrap_or(empty);
            return Column::with_codec(Codec::Gather(gatherer(declared, stored, Some(&fill))), stored)
                .map_err(at);
        }
        let fill = masked_fill(stored.data_type(), given).map_err(at)?;
        let filled = gatherer(declared, stored, Some(&fill));
        let codec = MaskedCodec::new(filled, stored.data_type(), given.is_some());
        Column::gathered(codec, stored).map_err(at)
    }

    /// The value that replaces the nulls of a column.
    fn fill(&self, name: &str) -> Option<&Fill> {
        self.spec.by_column.get(name)?.fill_null.as_ref()
    }

    /// Makes the masks: columns that are true where another column has a value, and false where it is null.
    pub(super) fn null_masks(&self, read: &Schema, masked: &Masked<'_>) -> Result<Vec<Column>> {
        let alone = masked.iter().filter(|field| !self.is_stacked(field.name()));
        let columns = alone.map(|field| {
            let name = Pad::mask_name(field.name());
            if read.index_of(&name).is_ok() {
                return Err(Error::invalid("the mask of nulls has the name of a stored column")
                    .hint(format!(
                        "leave that column out of `columns`, or {:?} out of `null_mask`",
                        field.name()
                    ))
                    .at(of_column(&name)));
            }
            let place = read.index_of(field.name()).unwrap_or_default();
            Column::with_codec(Codec::GatherOf(place, Arc::new(NullMaskCodec { name })), field)
        });
        columns.collect()
    }
}

/// The error if `null_mask` names a column that another option delivers in a form that has no mask of nulls.
pub(super) fn no_mask() -> Error {
    Error::invalid("null_mask names a column that another option delivers in another form")
        .hint("such a column has no mask of nulls: use `fill_null` or `on_bad_row`")
}
