//! Masks of a column that only some sources make.

use forebay_arrow::datatypes::Schema;
use forebay_base::{Error, Place, Result};
use forebay_store::source::matches_name;

use crate::column::{Pad, Views};
use crate::loader::spec::LoaderSpec;

/// A source: its options, and the columns that it delivers.
pub(in crate::loader) struct Delivered<'a> {
    pub(in crate::loader) spec: &'a LoaderSpec,
    pub(in crate::loader) schema: &'a Schema,
}

impl Delivered<'_> {
    /// The column whose mask marks the nulls of a delivered column: itself, or the one that it is a view of.
    fn masked_as<'a>(&self, column: &'a str) -> &'a str {
        let views = self.spec.with_option(|column| column.views.as_ref());
        let of_view = |(name, views): (&str, &Views)| {
            let bases = views.iter().filter_map(|view| column.strip_suffix(&view.column("")));
            bases.into_iter().find(|base| *base == name || matches_name(name, base))
        };
        views.into_iter().find_map(of_view).unwrap_or(column)
    }

    /// The option that makes a mask for a delivered column, if there is one.
    fn mask_of(&self, column: &str) -> Option<&'static str> {
        let column = self.masked_as(column);
        self.schema.index_of(&Pad::mask_name(column)).ok()?;
        let is_named = |name: &str| name == column || matches_name(name, column);
        if self.spec.null_mask.iter().any(|name| is_named(name)) {
            return Some("null_mask");
        }
        let mut padded = self.spec.with_option(|column| column.pad.as_ref());
        padded.any(|(name, pad)| is_named(name) && pad.has_mask()).then_some("pad")
    }

    fn has(&self, column: &str) -> bool {
        self.schema.index_of(column).is_ok()
    }

    fn fills(&self, column: &str) -> bool {
        let column = self.masked_as(column);
        let mut filled = self.spec.with_option(|column| column.fill_null.as_ref());
        filled.any(|(name, _)| name == column || matches_name(name, column))
    }
}

/// Refuses a column for which one source makes a mask and another does not: nothing would say which values
/// are present in the rows of the latter. In the rows of sources without the column, both column and mask are
/// null.
pub(in crate::loader) fn check_masks(sources: &[Delivered<'_>]) -> Result<()> {
    for (source, of) in sources.iter().enumerate() {
        let columns = of.schema.fields().iter().map(|field| field.name().as_str());
        for (delivered, option) in columns.filter_map(|column| Some((column, of.mask_of(column)?))) {
            let lacks = |other: &Delivered<'_>| other.has(delivered) && other.mask_of(delivered).is_none();
            let Some(other) = sources.iter().position(lacks) else { continue };
            let column = of.masked_as(delivered);
            let fills =
                if sources[other].fills(delivered) { ", but fills its nulls (fill_null)" } else { "" };
            let cause = format!(
                "source {source} makes a mask of {column:?} ({option}), and source {other} does not{fills}"
            );
            let same = match option {
                "pad" => format!("pad {column:?} with a mask in source {other} as well"),
                _ => format!(
                    "name {column:?} in `null_mask` of source {other} as well: with it, `fill_null` sets the \
                     value in place of a null"
                ),
            };
            let hint = format!("{same}, or make the mask in no source");
            return Err(Error::invalid(cause).hint(hint).at(Place::default().column(column)));
        }
    }
    Ok(())
}
