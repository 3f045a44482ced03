//! Columns whose values are cast: which they are, the fields that other options see, and the codecs around theirs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::arrow::datatypes::{DataType, Field, FieldRef, Schema};

use super::LoaderBuilder;
use super::columns::of_column;
use crate::column::{CastCodec, ColumnCodec, cast_field};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{is_pattern, matches_name};

/// A codec and the field that it delivers.
type Column = (Arc<dyn ColumnCodec>, FieldRef);

/// The columns that are cast, each with the name or pattern that says so, and their types.
pub(super) type Casts<'a> = HashMap<&'a str, (&'a str, &'a DataType)>;

impl LoaderBuilder {
    /// The columns of `stored`, which are those that are read, that are cast.
    pub(super) fn cast_columns<'a>(&'a self, stored: &'a Schema) -> Result<Casts<'a>> {
        let mut casts = Casts::new();
        let is_named =
            |name: &str| stored.column_with_name(name).is_some() || self.dataset.catalog.column(name).is_ok();
        // A name that exists is taken literally, whatever characters it has, and counts before patterns.
        let (named, patterns): (Vec<_>, Vec<_>) =
            self.spec.cast.iter().partition(|(name, _)| is_named(name) || !is_pattern(name));
        for (name, to) in named {
            let field = self.read_column(stored, name, "cast")?;
            casts.insert(field.name(), (name, to));
        }
        let named: Vec<&str> = casts.keys().copied().collect();
        for (pattern, to) in patterns {
            let names = stored.fields().iter().map(|field| field.name().as_str());
            let mut matching = names.filter(|name| matches_name(pattern, name)).peekable();
            if matching.peek().is_none() {
                let cause = format!("cast: no column that is read matches {pattern:?}");
                return Err(Error::new(ErrorKind::UnknownColumn, cause)
                    .hint("`*` and `?` stand for any characters, `[0-9]` for one of several"));
            }
            for name in matching.filter(|name| !named.contains(name)) {
                if let Some((other, _)) = casts.insert(name, (pattern, to)).filter(|(_, other)| *other != to)
                {
                    let cause = format!("both {other:?} and {pattern:?} match it, with types of their own");
                    return Err(Error::invalid(cause).hint("name the column in `cast`").at(of_column(name)));
                }
            }
        }
        Ok(casts)
    }

    /// A column with the cast of its values before all that is done with them.
    pub(super) fn after_cast(&self, column: Column, stored: &Field, casts: &Casts<'_>) -> Result<Column> {
        let Some((_, to)) = casts.get(stored.name().as_str()) else { return Ok(column) };
        let (inner, field) = column;
        let codec = CastCodec::new(inner, stored, to).map_err(|error| error.at(of_column(stored.name())))?;
        Ok((Arc::new(codec), field))
    }
}

/// The columns as they are after the casts.
pub(super) fn cast_schema(stored: &Schema, casts: &Casts<'_>) -> Result<Schema> {
    let fields = stored.fields().iter().map(|field| match casts.get(field.name().as_str()) {
        Some((_, to)) => {
            cast_field(field, to).map(Arc::new).map_err(|error| error.at(of_column(field.name())))
        }
        None => Ok(field.clone()),
    });
    Ok(Schema::new_with_metadata(fields.collect::<Result<Vec<_>>>()?, stored.metadata().clone()))
}
