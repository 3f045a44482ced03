//! The numbers of values in an entry: for each column of texts or bytes in which values repeat, a further
//! column with the number of the value in each row.
//!
//! The further columns follow the others, and the schema's metadata lists which columns they belong to. With
//! them, a column is encoded without a look at the value of each row, whatever the vocabulary.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema, UInt16Type};
use forebay_arrow::error::ArrowError;

use crate::batch::ValueNumbers;

/// The key of the schema's metadata that lists the columns with numbers, as `0,3,4`.
const NUMBERED: &str = "forebay.numbered";

/// Adds the numbers to the rows, as further columns.
pub(super) fn with_numbers(rows: RecordBatch, numbers: &ValueNumbers) -> Result<RecordBatch, ArrowError> {
    let numbered = numbers.iter().enumerate().filter_map(|(at, numbers)| Some((at, numbers.as_ref()?)));
    let numbered: Vec<_> = numbered.collect();
    if numbered.is_empty() {
        return Ok(rows);
    }
    let (schema, mut columns, count) = rows.into_parts();
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    for (at, numbers) in &numbered {
        let name = format!("{}.number", schema.field(*at).name());
        fields.push(Arc::new(Field::new(name, DataType::UInt16, false)));
        columns.push(Arc::new((*numbers).clone()) as ArrayRef);
    }
    let of: Vec<String> = numbered.iter().map(|(at, _)| at.to_string()).collect();
    let mut metadata = schema.metadata().clone();
    metadata.insert(NUMBERED.to_owned(), of.join(","));
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// Undoes [`with_numbers`].
pub(super) fn without_numbers(rows: RecordBatch) -> Result<(RecordBatch, ValueNumbers), ArrowError> {
    let Some(of) = rows.schema_ref().metadata().get(NUMBERED) else {
        let numbers = rows.columns().iter().map(|_| None).collect();
        return Ok((rows, numbers));
    };
    let unfit = || ArrowError::IpcError("the stream lacks the numbers of values".into());
    let of =
        of.split(',').map(|at| at.parse::<usize>().map_err(|_| unfit())).collect::<Result<Vec<_>, _>>()?;
    let (schema, mut columns, count) = rows.into_parts();
    let own = columns.len().checked_sub(of.len()).ok_or_else(unfit)?;
    let mut numbers = vec![None; own];
    for (at, column) in of.into_iter().zip(columns.split_off(own)) {
        let of_column = column.as_primitive_opt::<UInt16Type>().filter(|numbers| numbers.null_count() == 0);
        *numbers.get_mut(at).ok_or_else(unfit)? = Some(of_column.ok_or_else(unfit)?.clone());
    }
    let mut metadata = schema.metadata().clone();
    metadata.remove(NUMBERED);
    let fields: Vec<FieldRef> = schema.fields().iter().take(own).cloned().collect();
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    Ok((RecordBatch::try_new_with_options(schema, columns, &options)?, numbers.into()))
}
