//! How one file's columns map to the catalogue's. Files that were written alike share one value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};

use super::types;
use crate::error::{Error, ErrorKind, OrFail, Place, Result};
use crate::snapshot::Constant;

/// The columns of a file: what Parquet has, what is delivered, and where the catalogue's columns are among them.
#[derive(Debug)]
pub(crate) struct FileColumns {
    /// The Parquet schema, shared by the footers.
    pub(crate) parquet: SchemaDescPtr,
    /// The columns in this file's order, typed as delivered: what the Parquet reader is asked for.
    pub(crate) schema: SchemaRef,
    /// For each column of the catalogue where it comes from; empty means that they are the columns of `schema`.
    origins: Vec<Origin>,
}

/// Where a column of the catalogue comes from in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The column with this index in the file's schema.
    Stored(usize),
    /// The file's constant with this index.
    Constant(usize),
}

impl FileColumns {
    /// The columns of a file by itself.
    ///
    /// Fails with `Corrupt` for a schema that makes no sense, and with `Unsupported` for two columns of one name.
    pub(crate) fn new(parquet: SchemaDescPtr, key_values: Option<&Vec<KeyValue>>) -> Result<Self> {
        let stored = parquet_to_arrow_schema(&parquet, key_values).or_fail()?;
        let fields: Vec<_> = stored.fields().iter().map(|field| types::delivered(field)).collect();
        let mut seen = HashMap::new();
        for field in &fields {
            if seen.insert(field.name().as_str(), ()).is_some() {
                return Err(Error::new(ErrorKind::Unsupported, "two columns have this name")
                    .at(Place::default().column(field.name().as_str())));
            }
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
        Ok(FileColumns { parquet, schema, origins: Vec::new() })
    }

    /// The same columns, for a catalogue with the columns `common`, which must all be there: stored, or one of `constants`,
    /// which come first.
    pub(crate) fn for_catalog(&self, common: &Schema, constants: &[Constant]) -> Result<Self> {
        let same = constants.is_empty()
            && common.fields().len() == self.schema.fields().len()
            && common.fields().iter().zip(self.schema.fields()).all(|(a, b)| a.name() == b.name());
        let origins = if same {
            Vec::new()
        } else {
            let of =
                |name: &String| match constants.iter().position(|constant| constant.field.name() == name) {
                    Some(constant) => Ok(Origin::Constant(constant)),
                    None => self.schema.index_of(name).map(Origin::Stored).map_err(|_| {
                        Error::new(ErrorKind::Internal, format!("column {name:?} was not unified"))
                    }),
                };
            common.fields().iter().map(|field| of(field.name())).collect::<Result<_>>()?
        };
        Ok(FileColumns { parquet: self.parquet.clone(), schema: self.schema.clone(), origins })
    }

    /// Where the catalogue's column comes from.
    pub(crate) fn origin(&self, column: usize) -> Origin {
        self.origins.get(column).copied().unwrap_or(Origin::Stored(column))
    }

    /// The stored ones of the catalogue's `columns`, by their index in this file, ascending.
    pub(crate) fn roots(&self, columns: &[usize]) -> Vec<usize> {
        let stored = columns.iter().filter_map(|&column| match self.origin(column) {
            Origin::Stored(root) => Some(root),
            Origin::Constant(_) => None,
        });
        let mut roots: Vec<usize> = stored.collect();
        roots.sort_unstable();
        roots
    }

    /// The leaf columns of the catalogue's `columns`, ascending, as the file orders them.
    pub(crate) fn leaves(&self, columns: &[usize]) -> Vec<usize> {
        leaves_of(&self.parquet, &self.roots(columns))
    }
}

fn leaves_of(parquet: &SchemaDescriptor, sorted_roots: &[usize]) -> Vec<usize> {
    (0..parquet.num_columns())
        .filter(|&leaf| sorted_roots.binary_search(&parquet.get_column_root_idx(leaf)).is_ok())
        .collect()
}
