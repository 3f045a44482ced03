//! The indexes of a row group outside the footer, which show more about its rows: the least and greatest
//! value of each page, and Bloom filters.
//!
//! Sources: Parquet's [page index](https://parquet.apache.org/docs/file-format/pageindex/) and [Bloom
//! filters](https://parquet.apache.org/docs/file-format/bloomfilter/). Both only save reads, so an index that
//! is damaged, or that contradicts itself or the footer, is ignored.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use forebay_arrow::datatypes::DataType;
use forebay_base::panics::caught;
use forebay_store::catalog::pages::{self, PageLocations};
use forebay_store::catalog::thrift::Compact;
use forebay_store::catalog::{Catalog, ColumnChunk, File, Origin, StoredGroup};
use parquet::basic::{SortOrder, Type};
use parquet::bloom_filter::Sbbf;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use crate::operand::Value;

/// The indexes of a column are read only if the column has at least this number of bytes. Smaller columns are
/// read faster than their indexes.
const MIN_COLUMN_BYTES: u64 = 64 << 10;

/// An index is read only if its column has at least this many times as many bytes as the index.
const MIN_INDEX_RATIO: u64 = 4;

/// One part of an index, and its byte range in the file.
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

/// The indexes of a row group, by the numbers of its leaf columns.
#[derive(Default)]
pub(crate) struct GroupIndex {
    pages: BTreeMap<usize, Pages>,
    blooms: BTreeMap<usize, Sbbf>,
}

struct Pages {
    locations: PageLocations,
    /// The statistics of each page.
    statistics: Vec<Statistics>,
}

/// The parts of indexes that may show whether rows of a row group match a filter. `columns` are the columns
/// of the filter; those in `equalities` are tested with `=`, `!=`, `in` or `not in`. `footer` is the whole
/// footer of the file.
pub(super) fn parts(
    columns: &[String],
    equalities: &BTreeSet<&str>,
    catalog: &Catalog,
    file: &File,
    index: usize,
    footer: &ParquetMetaData,
) -> Vec<IndexPart> {
    let Ok(kept) = file.footer() else { return Vec::new() };
    let mut parts = Vec::new();
    for name in columns {
        let Ok(column) = catalog.column(name) else { continue };
        let Origin::Stored(root) = kept.columns.origin(column) else { continue };
        let [leaf] = kept.columns.leaves_of(&[root])[..] else { continue };
        let chunk = footer.row_group(index).column(leaf);
        let stored = u64::try_from(chunk.compressed_size()).unwrap_or(0);
        let length = |range: &Range<u64>| range.end - range.start;
        if stored < MIN_COLUMN_BYTES || chunk.column_descr().max_rep_level() > 0 {
            continue;
        }
        let indexes = pages::offset_index(chunk, file.size).zip(pages::column_index(chunk, file.size));
        if let Some((locations, bounds)) = indexes
            && (length(&locations) + length(&bounds)) * MIN_INDEX_RATIO <= stored
        {
            parts.push(IndexPart { leaf, kind: Kind::Pages, range: locations });
            parts.push(IndexPart { leaf, kind: Kind::Bounds, range: bounds });
        }
        if let Some(range) = pages::bloom_filter(chunk, file.size)
            && equalities.contains(name.as_str())
            && length(&range) * MIN_INDEX_RATIO <= stored
        {
            parts.push(IndexPart { leaf, kind: Kind::Bloom, range });
        }
    }
    parts
}

impl GroupIndex {
    /// Reads `parts` from their `bytes`. Damaged parts are left out.
    pub(crate) fn read(
        parts: &[IndexPart],
        bytes: &[Bytes],
        stored: StoredGroup,
        footer: &ParquetMetaData,
    ) -> Self {
        let mut index = GroupIndex::default();
        let of = |leaf: usize, kind: Kind| {
            let at = parts.iter().position(|part| part.leaf == leaf && part.kind == kind)?;
            bytes.get(at)
        };
        let leaves: BTreeSet<usize> = parts.iter().map(|part| part.leaf).collect();
        for leaf in leaves {
            let chunk = footer.row_group(stored.index).column(leaf);
            if let Some((locations, bounds)) = of(leaf, Kind::Pages).zip(of(leaf, Kind::Bounds))
                && let Some(pages) = Pages::read(locations, bounds, chunk, stored.rows)
            {
                index.pages.insert(leaf, pages);
            }
            // A Bloom filter without blocks would lead to a division by zero.
            let bloom =
                of(leaf, Kind::Bloom).and_then(|bytes| caught(|| Sbbf::from_bytes(bytes).ok()).ok()?);
            let is_sound = |bloom: &Sbbf| bloom.num_blocks() > 0 && has_bounds(bloom, chunk);
            index.blooms.extend(bloom.filter(is_sound).map(|bloom| (leaf, bloom)));
        }
        index
    }

    /// Cuts the rows into runs within which no column changes its page, and returns the first row of each
    /// run, in ascending order from 0. Only 0 if no pages are known.
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

    /// The statistics of the page of a leaf column that contains `row`, and the number of rows in this page.
    pub(super) fn page(&self, leaf: usize, row: u32) -> Option<(&Statistics, u64)> {
        let pages = self.pages.get(&leaf)?;
        let page = pages.locations.page_of(row);
        Some((&pages.statistics[page], pages.locations.rows_of(page).len() as u64))
    }

    /// The locations of the pages of a leaf column.
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
        let locations = PageLocations::read(locations, &ColumnChunk::from_metadata(&column, chunk), rows)?;
        let (mut nulls_only, mut least, mut greatest, mut counts) = (None, None, None, None);
        let mut order = UNORDERED;
        Compact::new(bounds).structure(|input, id, kind| {
            match id {
                1 => nulls_only = Some(input.list_of(kind, Compact::bool_element)?),
                2 => least = Some(input.list_of(kind, Compact::bytes)?),
                3 => greatest = Some(input.list_of(kind, Compact::bytes)?),
                4 => order = input.i32(kind)?,
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
        let counted = |page: usize| counts.as_ref().and_then(|counts| u64::try_from(counts[page]).ok());
        let of_chunk = chunk.statistics().and_then(Statistics::null_count_opt);
        let in_all = (0..count).map(counted).sum::<Option<u64>>();
        if in_all.zip(of_chunk).is_some_and(|(of_pages, of_chunk)| of_pages != of_chunk) {
            return None;
        }
        let physical = chunk.column_type();
        let statistics = (0..count).map(|page| {
            let rows = locations.rows_of(page).len() as u64;
            match (nulls_only[page], counted(page)) {
                (true, counted) if counted.is_none_or(|nulls| nulls == rows) => {
                    statistics(physical, None, Some(rows))
                }
                // Some writers do not flag a page that has only nulls, but leave its bounds empty.
                (false, Some(nulls)) if nulls == rows && least[page].is_empty() => {
                    statistics(physical, None, Some(rows))
                }
                (false, counted) if counted.is_none_or(|nulls| nulls < rows) => {
                    // Every value except the empty one is greater than an empty value, so an empty upper
                    // bound stands for no bound.
                    let bounds = (!greatest[page].is_empty()).then_some((least[page], greatest[page]))?;
                    statistics(physical, Some(bounds), counted)
                }
                _ => None,
            }
        });
        let statistics = statistics.collect::<Option<Vec<_>>>()?;
        let bounds = statistics.iter().filter_map(|page| Bound::pair(page, &column)).collect::<Vec<_>>();
        are_in_order(&bounds, order).then_some(Pages { locations, statistics })
    }
}

/// The number in an index for pages whose bounds neither ascend nor descend.
const UNORDERED: i32 = 0;
const ASCENDING: i32 = 1;
const DESCENDING: i32 = 2;

/// The lower or upper bound of the values in a page, for types whose order the Parquet format defines.
#[derive(Debug, PartialEq, PartialOrd)]
enum Bound {
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Bound {
    /// The least and the greatest value of a page; `None` if the page has none, or if the format defines no
    /// order for the values.
    fn pair(page: &Statistics, column: &ColumnDescriptor) -> Option<[Bound; 2]> {
        macro_rules! pair {
            ($statistics:ident, $bound:expr) => {
                Some([$statistics.min_opt()?, $statistics.max_opt()?].map($bound))
            };
        }
        let signed = column.sort_order() == SortOrder::SIGNED;
        let unsigned = column.sort_order() == SortOrder::UNSIGNED;
        match page {
            Statistics::Int32(page) if signed => pair!(page, |bound| Bound::Integer((*bound).into())),
            Statistics::Int64(page) if signed => pair!(page, |bound| Bound::Integer((*bound).into())),
            Statistics::Int32(page) if unsigned => {
                pair!(page, |bound| Bound::Integer(bound.cast_unsigned().into()))
            }
            Statistics::Int64(page) if unsigned => {
                pair!(page, |bound| Bound::Integer(bound.cast_unsigned().into()))
            }
            Statistics::Float(page) => pair!(page, |bound| Bound::Float((*bound).into())),
            Statistics::Double(page) => pair!(page, |bound| Bound::Float(*bound)),
            Statistics::ByteArray(page) if unsigned => {
                pair!(page, |bound| Bound::Bytes(bound.data().to_vec()))
            }
            _ => None,
        }
    }
}

/// Whether the bounds of pages are consistent: in no page the lower bound is above the upper bound, and the
/// pages are in the stated `order`. NaN does not count against any order.
fn are_in_order(bounds: &[[Bound; 2]], order: i32) -> bool {
    let follows = |one: &Bound, next: &Bound| match order {
        ASCENDING => one.partial_cmp(next) != Some(Ordering::Greater),
        DESCENDING => one.partial_cmp(next) != Some(Ordering::Less),
        _ => true,
    };
    let is_pair = |[least, greatest]: &[Bound; 2]| least.partial_cmp(greatest) != Some(Ordering::Greater);
    let in_order = |pair: &[[Bound; 2]]| (0..2).all(|at| follows(&pair[0][at], &pair[1][at]));
    bounds.iter().all(is_pair) && bounds.windows(2).all(in_order)
}

/// Whether a Bloom filter contains the least and the greatest value of its column chunk, if the footer has
/// their exact values.
fn has_bounds(bloom: &Sbbf, chunk: &ColumnChunkMetaData) -> bool {
    macro_rules! has {
        ($statistics:ident) => {
            [$statistics.min_opt(), $statistics.max_opt()]
                .into_iter()
                .flatten()
                .all(|bound| bloom.check(bound))
        };
    }
    match chunk.statistics() {
        Some(Statistics::Int32(statistics)) => has!(statistics),
        Some(Statistics::Int64(statistics)) => has!(statistics),
        Some(Statistics::ByteArray(bytes)) => {
            let least = bytes.min_opt().filter(|_| bytes.min_is_exact());
            let greatest = bytes.max_opt().filter(|_| bytes.max_is_exact());
            [least, greatest].into_iter().flatten().all(|bound| bloom.check(bound.data()))
        }
        _ => true,
    }
}

/// Makes statistics of values with these bounds; `None` if the bounds are invalid for the type.
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

/// Whether a Bloom filter shows that a column holds none of these values. It never does so for a value that
/// can be stored in several forms.
pub(super) fn rules_out(bloom: &Sbbf, physical: Type, data_type: &DataType, values: &[Value]) -> bool {
    let is_absent = |value: &Value| match (physical, value) {
        (Type::INT32, Value::Int(value)) if data_type.is_integer() => {
            let signed = match data_type.is_unsigned_integer() {
                true => u32::try_from(*value).map(u32::cast_signed).ok(),
                false => i32::try_from(*value).ok(),
            };
            // A value that does not fit the stored type is not in the column.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::ConvertedType;
    use parquet::schema::types::{ColumnPath, Type as Node};

    use super::*;

    /// The number of rows in a page.
    const ROWS: u64 = 10;

    /// A page index as a test writes it, in Thrift's compact protocol.
    #[derive(Clone)]
    struct Written {
        nulls_only: Vec<bool>,
        bounds: Vec<[Vec<u8>; 2]>,
        order: u8,
        counts: Option<Vec<u8>>,
    }

    impl Written {
        fn bytes(&self) -> Vec<u8> {
            let count = self.bounds.len() as u8;
            let list = |kind: u8| [0x19, count << 4 | kind];
            let mut bytes = list(1).to_vec();
            bytes.extend(self.nulls_only.iter().map(|only| if *only { 1 } else { 2 }));
            for at in 0..2 {
                bytes.extend(list(8));
                for bounds in &self.bounds {
                    bytes.push(bounds[at].len() as u8);
                    bytes.extend(&bounds[at]);
                }
            }
            bytes.extend([0x15, self.order << 1]);
            if let Some(counts) = &self.counts {
                bytes.extend(list(6));
                bytes.extend(counts.iter().map(|count| count << 1));
            }
            bytes.push(0);
            bytes
        }

        /// Reads the index, together with page locations (an offset index) for the same number of pages.
        fn read(&self, physical: Type, of_chunk: Option<Statistics>) -> Option<Pages> {
            let count = self.bounds.len() as u8;
            let pages = (0..count).flat_map(|page| [0x16, 8 + 2 * page, 0x15, 2, 0x16, page * 20, 0]);
            let locations: Vec<u8> = [0x19, count << 4 | 0x0c].into_iter().chain(pages).chain([0]).collect();
            let converted =
                if physical == Type::BYTE_ARRAY { ConvertedType::UTF8 } else { ConvertedType::NONE };
            let node = Node::primitive_type_builder("x", physical).with_converted_type(converted).build();
            let column = ColumnDescriptor::new(Arc::new(node.unwrap()), 1, 0, ColumnPath::from("x"));
            let chunk = ColumnChunkMetaData::builder(Arc::new(column))
                .set_data_page_offset(4)
                .set_total_compressed_size(i64::from(count));
            let chunk = match of_chunk {
                Some(statistics) => chunk.set_statistics(statistics),
                None => chunk,
            };
            Pages::read(&locations, &self.bytes(), &chunk.build().unwrap(), ROWS * u64::from(count))
        }
    }

    fn integers(bounds: &[[i64; 2]]) -> Written {
        Written {
            nulls_only: vec![false; bounds.len()],
            bounds: bounds.iter().map(|pair| pair.map(|bound| bound.to_le_bytes().to_vec())).collect(),
            order: 1,
            counts: Some(vec![0; bounds.len()]),
        }
    }

    fn texts(bounds: &[[&str; 2]]) -> Written {
        let written = bounds.iter().map(|pair| pair.map(|bound| bound.as_bytes().to_vec())).collect();
        Written { bounds: written, ..integers(&vec![[0; 2]; bounds.len()]) }
    }

    #[test]
    fn an_index_that_contradicts_itself_is_none() {
        let sound = integers(&[[0, 9], [10, 19], [20, 29]]);
        let has_pages = |index: &Written| index.read(Type::INT64, None).is_some();
        let all = |change: &dyn Fn(&mut Written)| {
            let mut index = sound.clone();
            change(&mut index);
            index
        };
        assert!(has_pages(&sound));
        assert!(has_pages(&all(&|index| (index.bounds[1], index.nulls_only[1], index.counts) =
            (Default::default(), true, Some(vec![0, 10, 0])))));
        // The page is flagged as having only nulls, but the count says that none or not all of its values are
        // null.
        for nulls in [0, 9] {
            assert!(!has_pages(&all(&|index| (index.bounds[1], index.nulls_only[1], index.counts) =
                (Default::default(), true, Some(vec![0, nulls, 0])))));
        }
        assert!(!has_pages(&all(&|index| index.counts = Some(vec![0, 11, 0]))), "more nulls than rows");
        assert!(!has_pages(&all(&|index| index.bounds[1].swap(0, 1))), "the wrong way round");
        assert!(!has_pages(&all(&|index| index.bounds.swap(0, 1))), "in another order than it says");
        assert!(has_pages(&all(&|index| {
            index.bounds.swap(0, 1);
            index.order = 0;
        })));
        assert!(!has_pages(&all(&|index| index.order = 2)));
        let of_chunk = |nulls| Some(Statistics::int64(Some(0), Some(29), None, Some(nulls), false));
        assert!(sound.read(Type::INT64, of_chunk(0)).is_some());
        assert!(sound.read(Type::INT64, of_chunk(1)).is_none(), "the footer counts other nulls");
    }

    #[test]
    fn empty_bounds_are_those_of_no_value() {
        let read = |index: &Written| index.read(Type::BYTE_ARRAY, None);
        let mut index = texts(&[["", ""], ["b", "c"]]);
        assert!(read(&index).is_none(), "of ten values");
        // The flag for a page with only nulls is missing, but the count shows that all values are null.
        index.counts = Some(vec![10, 0]);
        assert_eq!(read(&index).unwrap().statistics[0].null_count_opt(), Some(10));
        assert!(read(&texts(&[["", "a"], ["b", "c"]])).is_some());
    }

    #[test]
    fn nulls_that_are_not_counted_are_not_known() {
        let index = Written { counts: None, ..integers(&[[0, 9], [10, 19]]) };
        let pages = index.read(Type::INT64, None).unwrap();
        assert!(pages.statistics.iter().all(|page| page.null_count_opt().is_none()));
    }

    #[test]
    fn a_bloom_filter_rules_out_no_value_that_is_stored() {
        let empty = || Sbbf::new_with_ndv_fpp(100, 0.001).unwrap();
        let (mut narrow, mut wide, mut texts) = (empty(), empty(), empty());
        [0, 7, -1, i32::MIN, i32::MAX].iter().for_each(|value| narrow.insert(value));
        [0, 7, -1, i64::MIN, i64::MAX].iter().for_each(|value| wide.insert(value));
        ["", "a"].iter().for_each(|value| texts.insert(*value));
        let is_ruled_out = |data_type: &DataType, values: &[Value]| {
            let (bloom, physical) = match data_type {
                DataType::Utf8View => (&texts, Type::BYTE_ARRAY),
                DataType::Int64 | DataType::UInt64 => (&wide, Type::INT64),
                _ => (&narrow, Type::INT32),
            };
            rules_out(bloom, physical, data_type, values)
        };
        let int = |value: i64| Value::Int(value);
        let top = 1u64 << 63;
        for (data_type, stored, others) in [
            (DataType::Int8, vec![int(0), int(7), int(-1)], vec![int(5), int(-5)]),
            (
                DataType::Int32,
                vec![int(0), int(7), int(-1), int(i32::MIN.into()), int(i32::MAX.into())],
                vec![int(5), int(1 << 31), int(1 << 32), int(i64::MIN)],
            ),
            (
                DataType::UInt32,
                vec![int(0), int(7), int(u32::MAX.into()), int(1 << 31), int((1 << 31) - 1)],
                vec![int(5), int(-1), int(1 << 32)],
            ),
            (
                DataType::Int64,
                vec![int(0), int(7), int(-1), int(i64::MIN), int(i64::MAX)],
                vec![int(5), int(-5)],
            ),
            (
                DataType::UInt64,
                vec![int(0), int(7), int(i64::MAX), Value::UInt(u64::MAX), Value::UInt(top)],
                vec![int(5), int(-1), int(i64::MIN), Value::UInt(top + 1)],
            ),
            (
                DataType::Utf8View,
                ["", "a"].map(|text| Value::Text(text.into())).to_vec(),
                vec![Value::Text("b".into())],
            ),
        ] {
            for value in &stored {
                let value = std::slice::from_ref(value);
                assert!(!is_ruled_out(&data_type, value), "{data_type}: {value:?}");
                let list = [&others[..], value].concat();
                assert!(!is_ruled_out(&data_type, &list), "one of the values is stored");
            }
            assert!(is_ruled_out(&data_type, &others), "{data_type}: {others:?}");
        }
        for data_type in [DataType::Date32, DataType::Decimal32(9, 2)] {
            assert!(!is_ruled_out(&data_type, &[int(5)]), "{data_type} may store it in another form");
        }
    }
}
