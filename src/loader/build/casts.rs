//! The option `cast`: the columns whose values are cast to another type, the fields that other options then
//! see, and the codecs that cast.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_base::Result;

use super::LoaderBuilder;
use super::places::of_column;
use crate::column::{CastCodec, Codec, Column, cast_field};

/// The types to cast to, by the names of the columns.
pub(super) type Casts<'a> = HashMap<&'a str, &'a DataType>;

impl LoaderBuilder {
    /// The columns whose values are cast, and their new types. `stored` has all columns that are read.
    pub(super) fn cast_columns<'a>(&'a self, stored: &'a Schema) -> Result<Casts<'a>> {
        let cast = self.spec.with_option(|column| column.cast.as_ref()).map(|(name, to)| {
            let field = self.read_column(stored, name, "cast")?;
            Ok((field.name().as_str(), to.data_type()))
        });
        cast.collect()
    }

    /// Puts the cast of a column before its codec, if the column is cast.
    pub(super) fn after_cast(&self, column: Column, stored: &Field, casts: &Casts<'_>) -> Result<Column> {
        let Some(to) = casts.get(stored.name().as_str()) else { return Ok(column) };
        let Column { codec, field } = column;
        let codec = CastCodec::new(codec, stored, to).map_err(|error| error.at(of_column(stored.name())))?;
        Ok(Column { codec: Codec::Gather(Arc::new(codec)), field })
    }
}

/// The schema after the casts.
pub(super) fn cast_schema(stored: &Schema, casts: &Casts<'_>) -> Result<Schema> {
    let fields = stored.fields().iter().map(|field| match casts.get(field.name().as_str()) {
        Some(to) => cast_field(field, to).map(Arc::new).map_err(|error| error.at(of_column(field.name()))),
        None => Ok(field.clone()),
    });
    Ok(Schema::new_with_metadata(fields.collect::<Result<Vec<_>>>()?, stored.metadata().clone()))
}
