//! What a file has of a row group beside its footer, which decides more of its rows: the bounds of each page, and Bloom filters.
//!
//! Sources: Parquet's [page index](https://parquet.apache.org/docs/file-format/pageindex/) and
//! [Bloom filters](https://parquet.apache.org/docs/file-format/bloomfilter/). Both only save reads: one that is damaged is as
//! good as none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::Type;
use parquet::bloom_filter::Sbbf;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;

use super::{Filter, Op, Value};
use crate::arrow::datatypes::DataType;
use crate::catalog::pages::{self, PageLocations};
use crate::catalog::thrift::Compact;
use crate::catalog::{Catalog, ColumnChunk, Group, Origin};
use crate::panics::caught;

/// Columns of fewer bytes are read sooner than an index.
const WORTH: u64 = 64 << 10;

/// An index is read if the column takes this many times its bytes.
const TIMES: u64 = 4;

/// One part of an index, and where it is in its file.
pub(crate) struct IndexPart {
    leaf: usize,
    kind: Kind,
    pub(crate) range: Range<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Pages,
    Bounds,
    Bloom,
}

/// The indexes of a row group, by its leaf columns.
#[derive(Default)]
pub(crate) struct GroupIndex {
    pages: BTreeMap<usize, Pages>,
    blooms: BTreeMap<usize, Sbbf>,
}

struct Pages {
    locations: PageLocations,
    /// Of each page.
    statistics: Vec<Statistics>,
}

/// The parts of indexes that may decide rows of a group by `filter`, as the whole footer of its file says.
pub(crate) fn parts(
    filter: &Filter,
    catalog: &Catalog,
    group: &Group,
    footer: &ParquetMetaData,
) -> Vec<IndexPart> {
    let file = &catalog.files[group.file];
    let Ok(kept) = file.footer() else { return Vec::new() };
    let columns = filter.columns();
    let equalities = filter.equalities();
    let mut parts = Vec::new();
    for name in columns {
        let Ok(column) = catalog.column(&name) else { continue };
        let Origin::Stored(root) = kept.columns.origin(column) else { continue };
        let [leaf] = kept.columns.leaves_of(&[root])[..] else { continue };
        let chunk = footer.row_group(group.index).column(leaf);
        let stored = u64::try_from(chunk.compressed_size()).unwrap_or(0);
        let length = |range: &Range<u64>| range.end - range.start;
        if stored < WORTH || chunk.column_descr().max_rep_level() > 0 {
            continue;
        }
        let indexes = pages::offset_index(chunk, file.size).zip(pages::column_index(chunk, file.size));
        if let Some((locations, bounds)) = indexes
            && (length(&locations) + length(&bounds)) * TIMES <= stored
        {
            parts.push(IndexPart { leaf, kind: Kind::Pages, range: locations });
            parts.push(IndexPart { leaf, kind: Kind::Bounds, range: bounds });
        }
        if let Some(range) = pages::bloom_filter(chunk, file.size)
            && equalities.contains(name.as_str())
            && length(&range) * TIMES <= stored
        {
            parts.push(IndexPart { leaf, kind: Kind::Bloom, range });
        }
    }
    parts
}

impl GroupIndex {
    /// Reads `parts`, whose bytes are given; leaves out those that are damaged.
    pub(crate) fn read(
        parts: &[IndexPart],
        bytes: &[Bytes],
        group: &Group,
        footer: &ParquetMetaData,
    ) -> Self {
        let mut index = GroupIndex::default();
        let of = |leaf: usize, kind: Kind| {
            let at = parts.iter().position(|part| part.leaf == leaf && part.kind == kind)?;
            bytes.get(at)
        };
        let leaves: BTreeSet<usize> = parts.iter().map(|part| part.leaf).collect();
        for leaf in leaves {
            let chunk = footer.row_group(group.index).column(leaf);
            if let Some((locations, bounds)) = of(leaf, Kind::Pages).zip(of(leaf, Kind::Bounds))
                && let Some(pages) = Pages::read(locations, bounds, chunk, group.rows)
            {
                index.pages.insert(leaf, pages);
            }
            // A filter of no blocks would divide by their number.
            let bloom =
                of(leaf, Kind::Bloom).and_then(|bytes| caught(|| Sbbf::from_bytes(bytes).ok()).ok()?);
            index.blooms.extend(bloom.filter(|bloom| bloom.num_blocks() > 0).map(|bloom| (leaf, bloom)));
        }
        index
    }

    /// The first rows of runs of rows for which each column has one page, ascending from 0; just 0 where there are no pages.
    pub(super) fn starts(&self) -> Vec<u32> {
        let mut starts: Vec<u32> =
            self.pages.values().flat_map(|pages| pages.locations.first_rows()).copied().collect();
        starts.push(0);
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    pub(super) fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// What is known of the page that has a row, and the number of its rows.
    pub(super) fn page(&self, leaf: usize, row: u32) -> Option<(&Statistics, u64)> {
        let pages = self.pages.get(&leaf)?;
        let page = pages.locations.page_of(row);
        Some((&pages.statistics[page], pages.locations.rows_of(page).len() as u64))
    }

    /// Where the pages of a leaf column are.
    pub(crate) fn locations(&self, leaf: usize) -> Option<&PageLocations> {
        self.pages.get(&leaf).map(|pages| &pages.locations)
    }

    pub(super) fn bloom(&self, leaf: usize) -> Option<&Sbbf> {
        self.blooms.get(&leaf)
    }
}

impl Pages {
    fn read(locations: &[u8], bounds: &[u8], chunk: &ColumnChunkMetaData, rows: u64) -> Option<Self> {
        let column = chunk.column_descr_ptr();
        let locations = PageLocations::read(locations, &ColumnChunk::of(&column, chunk), rows)?;
        let (mut nulls_only, mut least, mut greatest, mut counts) = (None, None, None, None);
        Compact::new(bounds).structure(|input, id, kind| {
            match id {
                1 => nulls_only = Some(input.list_of(kind, Compact::bool_element)?),
                2 => least = Some(input.list_of(kind, Compact::bytes)?),
                3 => greatest = Some(input.list_of(kind, Compact::bytes)?),
                5 => counts = Some(input.list_of(kind, Compact::i64)?),
                _ => input.skip(kind)?,
            }
            Some(())
        })?;
        let (nulls_only, least, greatest) = (nulls_only?, least?, greatest?);
        let each = [nulls_only.len(), least.len(), greatest.len()];
        let count = locations.len();
        if each != [count; 3] || counts.as_ref().is_some_and(|counts| counts.len() != count) {
            return None;
        }
        let physical = chunk.column_type();
        let statistics = (0..count).map(|page| {
            let rows = locations.rows_of(page).len() as u64;
            let counted = counts.as_ref().and_then(|counts| u64::try_from(counts[page]).ok());
            match nulls_only[page] {
                true => statistics(physical, None, Some(rows)),
                false => statistics(physical, Some((least[page], greatest[page])), counted),
            }
        });
        let statistics = statistics.collect::<Option<Vec<_>>>()?;
        Some(Pages { locations, statistics })
    }
}

/// Statistics of values with these bounds; `None` where these are none.
fn statistics(physical: Type, bounds: Option<(&[u8], &[u8])>, nulls: Option<u64>) -> Option<Statistics> {
    macro_rules! numbers {
        ($make:ident, $number:ty) => {{
            let number = |bytes: &[u8]| Some(<$number>::from_le_bytes(bytes.try_into().ok()?));
            let (min, max) = match bounds {
                Some((min, max)) => (Some(number(min)?), Some(number(max)?)),
                None => (None, None),
            };
            Statistics::$make(min, max, None, nulls, false)
        }};
    }
    let bytes = |bytes: &[u8]| ByteArray::from(bytes.to_vec());
    Some(match physical {
        Type::BOOLEAN => {
            let bool = |bytes: &[u8]| match bytes {
                [0] => Some(false),
                [1] => Some(true),
                _ => None,
            };
            let (min, max) = match bounds {
                Some((min, max)) => (Some(bool(min)?), Some(bool(max)?)),
                None => (None, None),
            };
            Statistics::boolean(min, max, None, nulls, false)
        }
        Type::INT32 => numbers!(int32, i32),
        Type::INT64 => numbers!(int64, i64),
        Type::FLOAT => numbers!(float, f32),
        Type::DOUBLE => numbers!(double, f64),
        Type::BYTE_ARRAY => {
            let (min, max) = bounds.unzip();
            Statistics::byte_array(min.map(bytes), max.map(bytes), None, nulls, false)
        }
        Type::FIXED_LEN_BYTE_ARRAY => {
            let fixed = |of: &[u8]| FixedLenByteArray::from(bytes(of));
            let (min, max) = bounds.unzip();
            Statistics::fixed_len_byte_array(min.map(fixed), max.map(fixed), None, nulls, false)
        }
        Type::INT96 => return None,
    })
}

/// Whether a Bloom filter rules out that a column holds one of these values. Not where a value has several forms as stored.
pub(super) fn rules_out(bloom: &Sbbf, physical: Type, data_type: &DataType, values: &[Value]) -> bool {
    let is_absent = |value: &Value| match (physical, value) {
        (Type::INT32, Value::Int(value)) if data_type.is_integer() => {
            let signed = match data_type.is_unsigned_integer() {
                true => u32::try_from(*value).map(u32::cast_signed).ok(),
                false => i32::try_from(*value).ok(),
            };
            // What has no such form is not stored.
            signed.is_none_or(|value| !bloom.check(&value))
        }
        (Type::INT64, Value::Int(value)) if *data_type == DataType::Int64 => !bloom.check(value),
        (Type::INT64, Value::Int(value)) if *data_type == DataType::UInt64 => {
            *value < 0 || !bloom.check(value)
        }
        (Type::INT64, Value::UInt(value)) if *data_type == DataType::UInt64 => {
            !bloom.check(&value.cast_signed())
        }
        (Type::BYTE_ARRAY, Value::Text(value)) => !bloom.check(value.as_str()),
        _ => false,
    };
    values.iter().all(is_absent)
}

impl Filter {
    /// The columns that are compared with values for being equal, or not.
    fn equalities(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.terms(&mut |term| {
            if matches!(term.op, Op::Eq | Op::NotEq | Op::In | Op::NotIn) {
                names.insert(term.column);
            }
        });
        names
    }
}
