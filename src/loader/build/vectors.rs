//! Columns of vectors: the fields that other options see, the codecs around theirs, and what may be read of
//! them by name.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_arrow::vectors::{SparkMl, TYPE, VALUES, holds_vectors, with_lists};
use forebay_base::{Error, Result};

use super::places::of_column;
use crate::column::{Codec, Column, VectorCodec};

/// The columns with their vectors as lists.
pub(super) fn listed_schema(stored: &Schema) -> Schema {
    let fields: Vec<Field> = stored.fields().iter().map(|field| with_lists(field)).collect();
    Schema::new_with_metadata(fields, stored.metadata().clone())
}

/// A column whose vectors are made lists before all that is done with them. Cells of bytes beside a vector
/// are decoded as they are.
pub(super) fn after_vectors(column: Column, stored: &Field) -> Result<Column> {
    if !holds_vectors(stored.data_type()) || column.codec.slot().is_some() {
        return Ok(column);
    }
    let Column { codec, field } = column;
    let codec = VectorCodec::new(codec).map_err(|error| error.at(of_column(stored.name())))?;
    Ok(Column { codec: Codec::Gather(Arc::new(codec)), field })
}

/// The mask of a padded column, which is made of its lists.
pub(super) fn mask_of_vectors(mask: Column, stored: &Field) -> Column {
    match mask {
        Column { codec: Codec::GatherOf(column, inner), field } if holds_vectors(stored.data_type()) => {
            Column { codec: Codec::GatherOf(column, Arc::new(VectorCodec::of_mask(inner))), field }
        }
        mask => mask,
    }
}

/// Refuses the values of vectors or matrices that are read without what tells those of sparse ones: `name` is
/// that of the structure, whose type is `stored`, and `fields` those that are read of it.
pub(super) fn check_fields(name: &str, stored: &DataType, fields: &[&str]) -> Result<()> {
    let Some(kind) = SparkMl::of(stored) else { return Ok(()) };
    let tells = |field: &&str| *field == TYPE || *field == kind.places();
    if !fields.contains(&VALUES) || fields.iter().any(tells) {
        return Ok(());
    }
    let cause = format!("the stored values of a sparse {} are its non-zeros alone", kind.name());
    let beside = format!("{name}.{}", kind.places());
    let hint = match kind {
        SparkMl::Vector => {
            format!("read {name:?}, which is delivered as lists of all values, or {beside:?} beside it")
        }
        SparkMl::Matrix => {
            let kind = format!("{name}.{TYPE}");
            format!("read {kind:?} as well, which is 1 where a matrix is dense, or {beside:?}")
        }
    };
    Err(Error::invalid(cause).hint(hint).at(of_column(&format!("{name}.{VALUES}"))))
}
