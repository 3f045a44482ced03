//! Checks that the sources of a mix agree on masks: either all sources that have a column make a mask for it,
//! or none does. A mask is a column that says which values of another column are present.

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
    /// Returns the column whose mask marks the nulls of a delivered column: for a view (one of several
    /// augmented versions of a column) the column that it is made from, otherwise the column itself.
    fn masked_as<'a>(&self, column: &'a str) -> &'a str {
        let views = self.spec.with_option(|column| column.views.as_ref());
        let of_view = |(name, views): (&str, &Views)| {
            let bases = views.iter().filter_map(|view| column.strip_suffix(&view.column("")));
            bases.into_iter().find(|base| *base == name || matches_name(name, base))
        };
        views.into_iter().find_map(of_view).unwrap_or(column)
    }

    /// Returns the name of the option that makes a mask for a delivered column, if one does.
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

/// Fails if one source makes a mask for a column and another source delivers the column without one, because
/// nothing would say which values of the latter's rows are present. A source may lack the column: column and
/// mask are then null in its rows.
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
