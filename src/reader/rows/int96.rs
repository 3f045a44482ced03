//! Checks times in the old form of 96 bits (INT96), whose range is larger than that of 64-bit nanoseconds.

use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray, OffsetSizeTrait, RecordBatch};
use forebay_arrow::buffer::NullBuffer;
use forebay_arrow::datatypes::{DataType, Schema, TimeUnit, TimestampNanosecondType, TimestampSecondType};
use forebay_arrow::nested::with_times;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::int96_roots;
use parquet::basic::{LogicalType, Type};

use super::{RowGroupReader, guarded};

const NANOSECONDS_A_SECOND: i64 = 1_000_000_000;

impl RowGroupReader<'_> {
    /// Fails if a time in the old 96-bit form cannot be represented by 64-bit nanoseconds. The Parquet crate
    /// would let it wrap around.
    ///
    /// For the check, such columns are decoded a second time, to whole seconds, which cannot overflow. This
    /// costs little, because such columns are rare and narrow.
    pub(super) fn check_int96(
        &self,
        batch: &RecordBatch,
        roots: &[usize],
        step: usize,
        limit: u64,
    ) -> Result<()> {
        let columns = &self.footer.columns;
        let int96 = int96_roots(&columns.parquet);
        for (column, &root) in roots.iter().enumerate().filter(|(_, root)| int96.contains(root)) {
            let field = columns.schema.field(root);
            let seconds = with_times(field, &DataType::Timestamp(TimeUnit::Second, None));
            if seconds == *field {
                continue;
            }
            let place = Place::default().column(field.name().as_str());
            let others = columns.parquet.columns().iter().enumerate().any(|(leaf, column)| {
                columns.parquet.get_column_root_idx(leaf) == root
                    && column.physical_type() == Type::INT64
                    && matches!(column.logical_type_ref(), Some(LogicalType::Timestamp { .. }))
            });
            if others {
                let cause = "a column that mixes times of 64 and of 96 bits is not read";
                return Err(Error::new(ErrorKind::Unsupported, cause)
                    .at(place)
                    .hint("leave it out with `columns`"));
            }
            let mut fields = columns.schema.fields().to_vec();
            fields[root] = Arc::new(seconds);
            let schema = Arc::new(Schema::new(fields));
            let coarse = guarded(|| self.decode_as(&schema, &[root], step, limit))?;
            if let Some(row) = wrapped(batch.column(column).as_ref(), coarse.column(0).as_ref(), None) {
                let place = if self.selection.is_none() { place.row(row as u64) } else { place };
                let cause = "the time is outside of the years 1677 to 2262, the range of nanoseconds";
                return Err(Error::new(ErrorKind::Unsupported, cause)
                    .at(place)
                    .hint("write the column as timestamps of microseconds, or leave it out with `columns`"));
            }
        }
        Ok(())
    }
}

/// The first row with a time, at any depth, whose nanoseconds and seconds disagree. Times in a structure that
/// is null, according to `around`, are ignored.
fn wrapped(fine: &dyn Array, coarse: &dyn Array, around: Option<&NullBuffer>) -> Option<usize> {
    /// The index of the list that contains an item.
    fn row_of<O: OffsetSizeTrait>(offsets: &[O], item: usize) -> usize {
        offsets.partition_point(|offset| offset.as_usize() <= item).saturating_sub(1)
    }
    let there = NullBuffer::union(around, fine.nulls());
    if let (Some(nanoseconds), Some(seconds)) =
        (fine.as_primitive_opt::<TimestampNanosecondType>(), coarse.as_primitive_opt::<TimestampSecondType>())
    {
        return (0..seconds.len()).find(|&row| {
            there.as_ref().is_none_or(|there| there.is_valid(row))
                && seconds.value(row) != nanoseconds.value(row).div_euclid(NANOSECONDS_A_SECOND)
        });
    }
    match fine.data_type() {
        DataType::List(_) => {
            let (list, coarse) = (fine.as_list::<i32>(), coarse.as_list_opt::<i32>()?);
            let item = wrapped(list.values().as_ref(), coarse.values().as_ref(), None)?;
            Some(row_of(list.value_offsets(), item))
        }
        DataType::LargeList(_) => {
            let (list, coarse) = (fine.as_list::<i64>(), coarse.as_list_opt::<i64>()?);
            let item = wrapped(list.values().as_ref(), coarse.values().as_ref(), None)?;
            Some(row_of(list.value_offsets(), item))
        }
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(1).max(1);
            let (list, coarse) = (fine.as_fixed_size_list(), coarse.as_fixed_size_list_opt()?);
            let there = there.map(|there| there.expand(length));
            let item = wrapped(list.values().as_ref(), coarse.values().as_ref(), there.as_ref())?;
            Some(item / length)
        }
        DataType::Map(..) => {
            let (map, coarse) = (fine.as_map(), coarse.as_map_opt()?);
            let entry = wrapped(map.entries(), coarse.entries(), None)?;
            Some(row_of(map.value_offsets(), entry))
        }
        DataType::Struct(_) => {
            let (fine, coarse) = (fine.as_struct().columns(), coarse.as_struct_opt()?.columns());
            let fields = fine.iter().zip(coarse);
            fields.filter_map(|(fine, coarse)| wrapped(fine.as_ref(), coarse.as_ref(), there.as_ref())).min()
        }
        _ => None,
    }
}
