//! Columns of Spark ML's vectors: the fields that options see, the codecs that first convert vectors to
//! lists, and the fields of a vector that can be read by name.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_arrow::vectors::{SparkMl, TYPE, VALUES, holds_vectors, with_lists};
use forebay_base::{Error, Result};

use super::places::of_column;
use crate::column::{Codec, Column, VectorCodec};

/// The schema in which vectors are lists.
pub(super) fn listed_schema(stored: &Schema) -> Schema {
    let fields: Vec<Field> = stored.fields().iter().map(|field| with_lists(field)).collect();
    Schema::new_with_metadata(fields, stored.metadata().clone())
}

/// Puts the conversion of vectors to lists before the codec of a column, if the column holds vectors. A
/// column whose cells are decoded is returned unchanged.
pub(super) fn after_vectors(column: Column, stored: &Field) -> Result<Column> {
    if !holds_vectors(stored.data_type()) || column.codec.slot().is_some() {
        return Ok(column);
    }
    let Column { codec, field } = column;
    let codec = VectorCodec::new(codec).map_err(|error| error.at(of_column(stored.name())))?;
    Ok(Column { codec: Codec::Gather(Arc::new(codec)), field })
}

/// Makes the mask of a padded column convert the column's vectors to lists first.
pub(super) fn mask_of_vectors(mask: Column, stored: &Field) -> Column {
    match mask {
        Column { codec: Codec::GatherOf(column, inner), field } if holds_vectors(stored.data_type()) => {
            Column { codec: Codec::GatherOf(column, Arc::new(VectorCodec::of_mask(inner))), field }
        }
        mask => mask,
    }
}

/// Refuses to read the field `values` of vectors or matrices without a field that tells sparse ones from
/// dense ones. `name` is the name of the structure, `stored` its type, and `fields` are its fields that are
/// read.
pub(super) fn check_fields(name: &str, stored: &DataType, fields: &[&str]) -> Result<()> {
    let Some(kind) = SparkMl::from_type(stored) else { return Ok(()) };
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
