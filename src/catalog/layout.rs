//! How one file's columns map to the catalogue's. Files that were written alike share one layout.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};

use super::types;
use crate::error::{Error, ErrorKind, OrFail, Place, Result};

/// The columns of a file: what Parquet has, what is delivered, and where the catalogue's columns are among them.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The Parquet schema, shared by the footers.
    pub(crate) parquet: SchemaDescPtr,
    /// The columns in this file's order, typed as delivered: what the Parquet reader is asked for.
    pub(crate) schema: SchemaRef,
    /// For each column of the catalogue its index in `schema`; empty means that they are the same.
    roots: Vec<usize>,
}

impl Layout {
    /// The layout of a file by itself.
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
        Ok(Layout { parquet, schema, roots: Vec::new() })
    }

    /// The same layout, for a catalogue with the columns `common`, which must all be there.
    pub(crate) fn for_catalog(&self, common: &Schema) -> Result<Self> {
        let same = common.fields().len() == self.schema.fields().len()
            && common.fields().iter().zip(self.schema.fields()).all(|(a, b)| a.name() == b.name());
        let roots = if same {
            Vec::new()
        } else {
            let of = |name: &String| {
                self.schema
                    .index_of(name)
                    .map_err(|_| Error::new(ErrorKind::Internal, format!("column {name:?} was not unified")))
            };
            common.fields().iter().map(|field| of(field.name())).collect::<Result<_>>()?
        };
        Ok(Layout { parquet: self.parquet.clone(), schema: self.schema.clone(), roots })
    }

    /// Where the catalogue's column is among this file's columns.
    pub(crate) fn root(&self, column: usize) -> usize {
        self.roots.get(column).copied().unwrap_or(column)
    }

    /// The leaf columns of the catalogue's `columns`, ascending, as the file orders them.
    pub(crate) fn leaves(&self, columns: &[usize]) -> Vec<usize> {
        let mut roots: Vec<usize> = columns.iter().map(|&column| self.root(column)).collect();
        roots.sort_unstable();
        leaves_of(&self.parquet, &roots)
    }
}

fn leaves_of(parquet: &SchemaDescriptor, sorted_roots: &[usize]) -> Vec<usize> {
    (0..parquet.num_columns())
        .filter(|&leaf| sorted_roots.binary_search(&parquet.get_column_root_idx(leaf)).is_ok())
        .collect()
}
