//! The codec of columns that no option decodes.

use std::sync::Arc;

use forebay_arrow::datatypes::Field;
use forebay_base::Result;

use super::places::of_column;
use crate::batch::Fill;
use crate::column::{Codec, Column, Declared, Gather, PlainCodec};

/// Makes a column that no option decodes. Its values are delivered as stored, or in the type that the files
/// declare.
pub(super) fn plain(declared: &Declared, stored: &Field, fill: Option<&Fill>) -> Result<Column> {
    Column::with_codec(Codec::Gather(gatherer(declared, stored, fill)), stored)
        .map_err(|error| error.at(of_column(stored.name())))
}

pub(super) fn gatherer(declared: &Declared, stored: &Field, fill: Option<&Fill>) -> Arc<dyn Gather> {
    declared.codec(stored, fill).unwrap_or_else(|| Arc::new(PlainCodec { fill: fill.cloned() }))
}
