//! Reads handwritten files that contradict themselves. Each gives an error or rows, and takes little memory.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "an allocator that counts; a test fails by panicking, and is its own loader"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use forebay::arrow::array::{Array, AsArray, RecordBatch};
use forebay::arrow::datatypes::{Int32Type, TimestampNanosecondType};
use forebay::rows::read_part;
use forebay::{Error, ErrorKind, Result};
use forebay_store::source::open;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// The memory limit for decoding one row group in these tests, in bytes.
const LIMIT: u64 = 16 << 20;

/// The most memory that opening and reading a file of a few hundred bytes may take, in bytes: the limit, and
/// what decoders need for themselves.
const MOST_MEMORY: usize = 40 << 20;

// Memory.

/// An allocator that counts the bytes that are allocated now, and their highest number so far.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        // SAFETY: the contract is the same, and the caller keeps it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Lets one test run at a time, because all tests share the counts of the allocator.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs some work. Returns its result, and its peak memory beyond what was allocated before, in bytes.
fn weighed<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let made = work();
    (made, MOST.load(Relaxed).saturating_sub(before))
}

// Thrift.

const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A value in Thrift's compact form, with the type that it is written as.
#[derive(Clone, Debug)]
enum ThriftValue {
    Integer(u8, i64),
    Bool(bool),
    Text(&'static str),
    Structure(Vec<(i16, ThriftValue)>),
    /// The type of the elements, the number of elements that are claimed but do not exist, and the elements.
    List(u8, i64, Vec<ThriftValue>),
    /// A value that claims to have another type.
    As(u8, Box<ThriftValue>),
}

use ThriftValue::{Bool, Structure, Text};

fn int(value: i64) -> ThriftValue {
    ThriftValue::Integer(I32, value)
}

fn long(value: i64) -> ThriftValue {
    ThriftValue::Integer(I64, value)
}

fn structures(items: Vec<ThriftValue>) -> ThriftValue {
    ThriftValue::List(STRUCT, 0, items)
}

fn varint(out: &mut Vec<u8>, mut rest: u64) {
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

impl ThriftValue {
    fn kind(&self) -> u8 {
        match self {
            ThriftValue::Integer(kind, _) | ThriftValue::As(kind, _) => *kind,
            Bool(value) => 2 - u8::from(*value),
            Text(_) => BINARY,
            Structure(_) => STRUCT,
            ThriftValue::List(..) => LIST,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            ThriftValue::Integer(_, value) => varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned()),
            Bool(_) => {}
            Text(text) => {
                varint(out, text.len() as u64);
                out.extend(text.bytes());
            }
            Structure(fields) => {
                let mut last = 0;
                for (id, value) in fields {
                    out.push(((id - last) as u8) << 4 | value.kind());
                    value.write(out);
                    last = *id;
                }
                out.push(0);
            }
            ThriftValue::List(kind, more, items) => {
                out.push(0xf0 | kind);
                varint(out, (items.len() as i64 + more).cast_unsigned());
                items.iter().for_each(|item| item.write(out));
            }
            ThriftValue::As(_, value) => value.write(out),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// The number of values in this value, including itself.
    fn all(&mut self) -> usize {
        let mut count = 0;
        self.visit(&mut |_| count += 1);
        count
    }

    fn visit(&mut self, see: &mut dyn FnMut(&mut ThriftValue)) {
        match self {
            Structure(fields) => fields.iter_mut().for_each(|(_, value)| value.visit(see)),
            ThriftValue::List(_, _, items) => items.iter_mut().for_each(|value| value.visit(see)),
            ThriftValue::As(_, value) => value.visit(see),
            ThriftValue::Integer(..) | Bool(_) | Text(_) => {}
        }
        see(self);
    }
}

// Parquet.

const INT32: i64 = 1;
const BYTE_ARRAY: i64 = 6;

const REQUIRED: i64 = 0;
const OPTIONAL: i64 = 1;
const REPEATED: i64 = 2;

const PLAIN: i64 = 0;
const RLE: i64 = 3;
const DELTA_LENGTH: i64 = 6;
const DELTA_TEXT: i64 = 7;
const RLE_DICTIONARY: i64 = 8;

const SNAPPY: i64 = 1;
const GZIP: i64 = 2;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut stream = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}

#[derive(Clone)]
struct WrittenColumn {
    name: &'static str,
    physical: i64,
    repetition: i64,
    codec: i64,
    values: i64,
    uncompressed: i64,
    /// The offset of the dictionary page, if the footer has one.
    dictionary: Option<i64>,
    encodings: Vec<i64>,
    /// The header and the body of each page.
    pages: Vec<(ThriftValue, Vec<u8>)>,
}

fn column(name: &'static str, physical: i64, repetition: i64, values: i64) -> WrittenColumn {
    let (uncompressed, encodings) = (1 << 20, vec![PLAIN, RLE]);
    WrittenColumn {
        name,
        physical,
        repetition,
        codec: 0,
        values,
        uncompressed,
        dictionary: None,
        encodings,
        pages: Vec::new(),
    }
}

impl WrittenColumn {
    fn codec(self, codec: i64) -> Self {
        WrittenColumn { codec, ..self }
    }

    fn page(mut self, header: ThriftValue, body: &[u8]) -> Self {
        self.pages.push((header, body.to_vec()));
        self
    }

    /// Adds a data page of version 1 whose header states the true size of `body`.
    fn plain(self, values: i64, encoding: i64, body: &[u8]) -> Self {
        self.page(data_page(values, encoding, body.len(), body), body)
    }
}

fn page_header(kind: i64, uncompressed: usize, stored: &[u8], of_kind: (i16, ThriftValue)) -> ThriftValue {
    let sizes = [(1, int(kind)), (2, int(uncompressed as i64)), (3, int(stored.len() as i64))];
    Structure(sizes.into_iter().chain([of_kind]).collect())
}

fn data_page(values: i64, encoding: i64, uncompressed: usize, stored: &[u8]) -> ThriftValue {
    let fields = [values, encoding, RLE, RLE].into_iter().zip(1..).map(|(value, id)| (id, int(value)));
    page_header(0, uncompressed, stored, (5, Structure(fields.collect())))
}

fn dictionary_page(values: i64, stored: &[u8]) -> ThriftValue {
    page_header(2, stored.len(), stored, (7, Structure(vec![(1, int(values)), (2, int(PLAIN))])))
}

/// The header of a data page of version 2 whose body begins with this many bytes of definition and repetition
/// levels.
fn data_page_v2(
    [values, rows]: [i64; 2],
    [definition, repetition]: [i64; 2],
    is_compressed: bool,
    uncompressed: usize,
    stored: &[u8],
) -> ThriftValue {
    let fields = [values, 0, rows, PLAIN, definition, repetition].into_iter().zip(1..);
    let fields = fields.map(|(value, id)| (id, int(value))).chain([(7, Bool(is_compressed))]);
    page_header(3, uncompressed, stored, (8, Structure(fields.collect())))
}

fn element(name: &'static str, physical: Option<i64>, repetition: i64, children: Option<i64>) -> ThriftValue {
    let fields =
        [(1, physical.map(int)), (3, Some(int(repetition))), (4, Some(Text(name))), (5, children.map(int))];
    Structure(fields.into_iter().filter_map(|(id, value)| Some((id, value?))).collect())
}

/// The bytes of a file without its footer, and the footer.
fn file(rows: i64, columns: &[WrittenColumn]) -> (Vec<u8>, ThriftValue) {
    let mut data = b"PAR1".to_vec();
    let mut schema = vec![element("r", None, REQUIRED, Some(columns.len() as i64))];
    let mut chunks = Vec::new();
    for column in columns {
        schema.push(element(column.name, Some(column.physical), column.repetition, None));
        let start = data.len() as i64;
        for (header, body) in &column.pages {
            data.extend(header.bytes());
            data.extend(body);
        }
        let mut about = vec![
            (1, int(column.physical)),
            (2, ThriftValue::List(I32, 0, column.encodings.iter().copied().map(int).collect())),
            (3, ThriftValue::List(BINARY, 0, vec![Text(column.name)])),
            (4, int(column.codec)),
            (5, long(column.values)),
            (6, long(column.uncompressed)),
            (7, long(data.len() as i64 - start)),
            (9, long(start)),
            (
                12,
                Structure(vec![
                    (3, long(0)),
                    (5, Text("zzzzzzzz")),
                    (6, Text("\0\0\0\0\0\0\0\0")),
                    (7, Bool(true)),
                ]),
            ),
            (15, int(0)),
        ];
        let statistics = about.iter().position(|(id, _)| *id == 12).unwrap();
        about.splice(statistics..statistics, column.dictionary.map(|offset| (11, long(offset))));
        chunks.push(Structure(vec![(2, long(start)), (3, Structure(about)), (5, int(7))]));
    }
    let group =
        vec![(1, structures(chunks)), (2, long(100)), (3, long(rows)), (7, ThriftValue::Integer(I16, 0))];
    let orders = columns.iter().map(|_| Structure(vec![(1, Structure(Vec::new()))])).collect();
    let footer = vec![
        (1, int(2)),
        (2, structures(schema)),
        (3, long(rows)),
        (4, structures(vec![Structure(group)])),
        (5, structures(vec![Structure(vec![(1, Text("key")), (2, Text("value"))])])),
        (6, Text("by hand")),
        (7, structures(orders)),
    ];
    (data, Structure(footer))
}

fn write(path: &Path, mut data: Vec<u8>, footer: &[u8]) {
    data.extend(footer);
    data.extend((footer.len() as u32).to_le_bytes());
    data.extend(b"PAR1");
    fs::write(path, data).unwrap();
}

/// Opens a file and reads all of its row groups.
fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    read_rows(path, None)
}

/// Opens a file and reads the selected rows of each of its row groups.
fn read_rows(path: &Path, selection: Option<&RowSelection>) -> Result<Vec<RecordBatch>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let location = path.to_str().unwrap().to_owned();
    let (store, catalog) = runtime.block_on(open(&[location], &BTreeMap::new()))?;
    let columns = catalog.project_all()?;
    let group = |(index, group)| {
        let ranges = catalog.byte_ranges(group, &columns)?;
        let bytes: Vec<Bytes> = runtime.block_on(store.read_ranges(&catalog.files[0], &ranges))?;
        read_part(&catalog, &columns, index, selection, ranges.into_iter().zip(bytes).collect(), LIMIT)
    };
    catalog.groups.iter().enumerate().map(group).collect()
}

/// Reads a file with these columns, in little memory.
fn read_columns(rows: i64, columns: &[WrittenColumn]) -> Result<Vec<RecordBatch>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let (data, footer) = file(rows, columns);
    write(&path, data, &footer.bytes());
    let (read, weight) = weighed(|| read(&path));
    assert!(weight < MOST_MEMORY, "{weight} bytes for {:?}", read.err());
    read
}

fn refusal(rows: i64, columns: &[WrittenColumn]) -> Error {
    read_columns(rows, columns).unwrap_err()
}

/// Four rows of five columns: plain numbers, texts with a dictionary, lists, texts after their lengths,
/// and texts that share prefixes.
fn honest() -> Vec<WrittenColumn> {
    let numbers: Vec<u8> = (1..=4i32).flat_map(i32::to_le_bytes).collect();
    let lists = [&[8, 0, 8, 1][..], &numbers].concat();
    // The bytes are the levels, the bit width of an index, and a run of four indices.
    let indices = [2, 0, 0, 0, 8, 1, 1, 8, 0];
    let dictionary = [1, 0, 0, 0, b'x', 1, 0, 0, 0, b'y'];
    vec![
        column("n", INT32, REQUIRED, 4).plain(4, PLAIN, &numbers),
        column("s", BYTE_ARRAY, OPTIONAL, 4).page(dictionary_page(2, &dictionary), &dictionary).plain(
            4,
            RLE_DICTIONARY,
            &indices,
        ),
        column("l", INT32, REPEATED, 4).page(data_page_v2([4, 4], [2, 2], true, lists.len(), &lists), &lists),
        column("d", BYTE_ARRAY, REQUIRED, 4).plain(4, DELTA_LENGTH, &[&deltas(4, 1)[..], b"abcd"].concat()),
        column("p", BYTE_ARRAY, REQUIRED, 4).plain(
            4,
            DELTA_TEXT,
            &[&deltas(4, 0)[..], &deltas(4, 1), b"abcd"].concat(),
        ),
    ]
}

/// Encodes one small number `count` times with delta encoding, in blocks of 128 with 4 miniblocks.
fn deltas(count: u64, number: u8) -> Vec<u8> {
    let mut bytes = vec![0x80, 1, 4];
    varint(&mut bytes, count);
    bytes.extend([number << 1, 0, 0, 0, 0, 0]);
    bytes
}

// Tests.

#[test]
fn an_honest_file_is_read() {
    let _alone = alone();
    let batches = read_columns(4, &honest()).unwrap();
    let batch = &batches[0];
    assert_eq!(batch.column(0).as_primitive::<Int32Type>().values(), &[1, 2, 3, 4]);
    assert_eq!(batch.column(1).as_binary_view().value(3), b"x");
    assert_eq!(batch.column(2).as_list::<i32>().value(3).as_primitive::<Int32Type>().values(), &[4]);
    let texts =
        |column: usize| batch.column(column).as_binary_view().iter().flatten().collect::<Vec<_>>().concat();
    assert_eq!((texts(3), texts(4)), (b"abcd".to_vec(), b"abcd".to_vec()));
}

/// A page of a few bytes expands to 64 MiB. The page before it already has all values that the footer states,
/// or more.
#[test]
fn a_page_behind_the_others_is_not_hidden() {
    const BOMB: usize = 64 << 20;
    let _alone = alone();
    let bomb = gzip(&vec![0; BOMB]);
    let one = gzip(&5i32.to_le_bytes());
    for claimed in [1, 2, (1 << 32) + 1] {
        let column = column("n", INT32, REQUIRED, claimed & 3)
            .codec(GZIP)
            .page(data_page(claimed, PLAIN, 4, &one), &one)
            .page(data_page(1, PLAIN, BOMB, &bomb), &bomb);
        let error = refusal(claimed & 3, &[column]);
        assert!(matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Corrupt), "{error}");
    }
    // After the last row of a column of lists, the decoder looks in the next page for more items of that row.
    let list = gzip(&[&[2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 2, 1][..], &5i32.to_le_bytes()].concat());
    let column = column("l", INT32, REPEATED, 1)
        .codec(GZIP)
        .page(data_page(1, PLAIN, 16, &list), &list)
        .page(data_page(1, PLAIN, BOMB, &bomb), &bomb);
    // The page claims more bytes than the footer states for all pages, so the file is corrupt, not too large.
    assert_eq!(refusal(1, &[column]).kind(), ErrorKind::Corrupt);
}

#[test]
fn rows_and_values_that_are_not_there_are_refused() {
    let _alone = alone();
    let four: Vec<u8> = (1..=4i32).flat_map(i32::to_le_bytes).collect();
    for (rows, said, stored) in
        [(1 << 31, 4, 4), (3, 4, 4), (5, 4, 4), (5, 5, 4), (3, 3, 4), (1 << 24, 1 << 24, 4)]
    {
        let column = column("n", INT32, REQUIRED, said).plain(stored, PLAIN, &four);
        let error = refusal(rows, &[column]);
        let name = error.place().column.as_deref() == Some("n");
        assert!(error.kind() == ErrorKind::Corrupt && name, "{rows} {said} {stored}: {error}");
    }
    // Files with this many rows are refused early, because the reader makes a plan of all rows before it
    // reads a page.
    for rows in [(1 << 24) + 1, 1 << 31, 1 << 40, i64::MAX] {
        let error = refusal(rows, &[column("n", INT32, REQUIRED, rows).plain(4, PLAIN, &four)]);
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    }
    // A column of lists may have more values than rows, but never fewer.
    let error = refusal(5, &[column("l", INT32, REPEATED, 4).plain(4, PLAIN, &four)]);
    assert_eq!(error.cause(), "the column chunk has 4 values for 5 rows");
}

/// The body of a page states how many lengths it has, and the Parquet crate allocates memory for that many.
#[test]
fn more_lengths_than_values_are_refused_before_they_are_allocated() {
    let _alone = alone();
    for count in [5, 1 << 28, 1 << 31, 1 << 40, 1 << 60] {
        let lengths = [&deltas(count, 0)[..], &[0; 9]].concat();
        let suffixes = [&deltas(4, 0)[..], &lengths].concat();
        for (encoding, body) in [(DELTA_LENGTH, &lengths), (DELTA_TEXT, &lengths), (DELTA_TEXT, &suffixes)] {
            let name = if encoding == DELTA_LENGTH { "DELTA_LENGTH_BYTE_ARRAY" } else { "DELTA_BYTE_ARRAY" };
            for repetition in [REQUIRED, OPTIONAL] {
                let levels: &[u8] = if repetition == OPTIONAL { &[2, 0, 0, 0, 8, 1] } else { &[] };
                let body = [levels, body].concat();
                let error = refusal(4, &[column("d", BYTE_ARRAY, repetition, 4).plain(4, encoding, &body)]);
                let cause = format!("the 4 values of a page are malformed ({name})");
                assert_eq!(error.cause(), cause, "{count}");
                let packed = gzip(&body);
                let page = data_page(4, encoding, body.len(), &packed);
                let error =
                    refusal(4, &[column("d", BYTE_ARRAY, repetition, 4).codec(GZIP).page(page, &packed)]);
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            }
        }
    }
}

/// If a run of levels claims more levels than are left, the Parquet crate takes those that it finds. Texts
/// would then move to other rows.
#[test]
fn runs_of_levels_that_make_no_sense_are_refused() {
    let _alone = alone();
    let texts: Vec<u8> = (0..14).flat_map(|text| [1, 0, 0, 0, b'a' + text]).collect();
    let read_all = |levels: [u8; 3]| {
        let first = [&[3, 0, 0, 0][..], &levels, &texts].concat();
        let second = [&levels[..], &texts].concat();
        let text = || column("s", BYTE_ARRAY, OPTIONAL, 16);
        [
            text().plain(16, PLAIN, &first),
            text().page(data_page_v2([16, 16], [3, 0], true, second.len(), &second), &second),
        ]
        .map(|column| read_columns(16, &[column]))
    };
    // The run has two groups of eight levels; the first group has two nulls.
    let sound = [5, 0b1110_1101, 0xff];
    for read in read_all(sound) {
        let batches = read.unwrap();
        let found = batches[0].column(0).as_binary_view();
        assert_eq!((found.value(2), found.value(15), found.null_count()), (&b"b"[..], &b"n"[..], 2));
    }
    for bit in 0..u8::BITS {
        for read in read_all([sound[0] ^ 1 << bit, sound[1], sound[2]]) {
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "bit {bit}");
        }
    }
}

/// The Parquet crate would wait without end for the levels of rows that it skips.
#[test]
fn too_few_repetition_levels_are_refused_though_rows_are_skipped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let numbers: Vec<u8> = (1..=4i32).flat_map(i32::to_le_bytes).collect();
    let last = RowSelection::from_consecutive_ranges(std::iter::once(3..4), 4);
    let read_both = |column: WrittenColumn| {
        let (data, footer) = file(4, &[column]);
        write(&path, data, &footer.bytes());
        [None, Some(&last)].map(|selection| read_rows(&path, selection))
    };
    // The cases are: no level; three levels; three levels and an empty run; a run whose value is missing; and
    // a run of 2^63 - 1 levels, once with a truncated length and once whole.
    let endless = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
    let few: [&[u8]; 6] = [&[], &[6, 0], &[6, 0, 0, 0], &[8], &endless[..7], &endless];
    for (repetition, is_sound) in few.map(|levels| (levels, false)).into_iter().chain([(&[8, 0][..], true)]) {
        let ones = [8, 1];
        let lengthy = |levels: &[u8]| [&(levels.len() as u32).to_le_bytes()[..], levels].concat();
        let second = [repetition, &ones, &numbers].concat();
        let first = [lengthy(repetition), lengthy(&ones), numbers.clone()].concat();
        let list = || column("l", INT32, REPEATED, 4);
        let packed = gzip(&first);
        let columns = [
            list().page(
                data_page_v2([4, 4], [2, repetition.len() as i64], true, second.len(), &second),
                &second,
            ),
            list().plain(4, PLAIN, &first),
            list().codec(GZIP).page(data_page(4, PLAIN, first.len(), &packed), &packed),
        ];
        for (which, column) in columns.into_iter().enumerate() {
            for (read, rows) in read_both(column).into_iter().zip([4, 1]) {
                match read {
                    Ok(batches) => {
                        assert!(is_sound && batches[0].num_rows() == rows, "{which} {repetition:?}")
                    }
                    Err(error) => {
                        assert!(
                            !is_sound && error.kind() == ErrorKind::Corrupt,
                            "{which} {repetition:?}: {error}"
                        );
                    }
                }
            }
        }
    }
}

/// Zeros, another run or nonsense may follow the last level: DuckDB 1.3, for example, ends levels with a run
/// of 256.
#[test]
fn what_is_behind_the_last_level_is_not_looked_at() {
    let _alone = alone();
    let numbers: Vec<u8> = (1..=4i32).flat_map(i32::to_le_bytes).collect();
    let texts: Vec<u8> = (0..4).flat_map(|text| [1, 0, 0, 0, b'a' + text]).collect();
    let further = [&[65][..], &[0; 32]].concat();
    for behind in [&[][..], &[0], &further, &[7], &[0xff, 0xff]] {
        let levels = |level: u8| [&[8, level][..], behind].concat();
        let lengthy = |level: u8| [&(2 + behind.len() as u32).to_le_bytes()[..], &levels(level)].concat();
        for (physical, values) in [(INT32, &numbers), (BYTE_ARRAY, &texts)] {
            let flat = [lengthy(1), values.clone()].concat();
            let list = [lengthy(0), lengthy(1), values.clone()].concat();
            let second = [levels(0), levels(1), values.clone()].concat();
            let length = 2 + behind.len() as i64;
            let columns = [
                column("x", physical, OPTIONAL, 4).plain(4, PLAIN, &flat),
                column("l", physical, REPEATED, 4).plain(4, PLAIN, &list),
                column("m", physical, REPEATED, 4)
                    .page(data_page_v2([4, 4], [length, length], true, second.len(), &second), &second),
            ];
            let batch = read_columns(4, &columns).unwrap().remove(0);
            let items = [1, 2].map(|list| batch.column(list).as_list::<i32>().value(3));
            for last in [batch.column(0).slice(3, 1), items[0].clone(), items[1].clone()] {
                match physical {
                    INT32 => assert_eq!(last.as_primitive::<Int32Type>().values(), &[4], "{behind:?}"),
                    _ => assert_eq!(last.as_binary_view().value(0), b"d", "{behind:?}"),
                }
            }
        }
    }
}

/// Arrow before 12 said that a page of lists has as many rows as values, and began the next page within a
/// row.
#[test]
fn rows_and_nulls_of_a_page_are_those_of_its_levels() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let numbers = |from: i32, to: i32| (from..=to).flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
    let texts =
        |from: u8, to: u8| (from..=to).flat_map(|text| [1, 0, 0, 0, b'a' + text]).collect::<Vec<u8>>();
    let last = RowSelection::from_consecutive_ranges(std::iter::once(2..3), 3);
    for (physical, values) in
        [(INT32, [numbers(1, 3), numbers(4, 6)]), (BYTE_ARRAY, [texts(1, 3), texts(4, 6)])]
    {
        for said in [[3, 3], [0, 0], [2, 1], [1, 2], [9, 9]] {
            // The rows have one, three and two items, and the second row continues on the second page.
            let levels: [&[u8]; 2] = [&[4, 0, 2, 1, 6, 1], &[2, 1, 2, 0, 2, 1, 6, 1]];
            let mut list = column("l", physical, REPEATED, 6);
            for ((levels, values), (said, repetition)) in
                levels.into_iter().zip(&values).zip(said.into_iter().zip([4, 6]))
            {
                let body = [levels, values].concat();
                list = list.page(data_page_v2([3, said], [2, repetition], true, body.len(), &body), &body);
            }
            let (data, footer) = file(3, &[list]);
            write(&path, data, &footer.bytes());
            for selection in [None, Some(&last)] {
                let batch = read_rows(&path, selection).unwrap().remove(0);
                let list = batch.column(0).as_list::<i32>();
                let lengths: Vec<usize> = (0..list.len()).map(|row| list.value(row).len()).collect();
                assert_eq!(lengths, if selection.is_none() { vec![1, 3, 2] } else { vec![2] }, "{said:?}");
                let last = list.value(list.len() - 1);
                match physical {
                    INT32 => assert_eq!(last.as_primitive::<Int32Type>().values(), &[5, 6]),
                    _ => assert_eq!(last.as_binary_view().value(1), b"g"),
                }
            }
        }
        // A column without lists, whose page claims two rows for three values.
        let body = &values[0];
        let flat = column("x", physical, REQUIRED, 3)
            .page(data_page_v2([3, 2], [0, 0], true, body.len(), body), body);
        assert_eq!(read_columns(3, &[flat]).unwrap()[0].num_rows(), 3);
    }
    // The header of the page states three nulls, but its levels have only one.
    let body = [&[2, 0, 4, 1][..], &texts(1, 2)].concat();
    let Structure(mut header) = data_page_v2([3, 3], [4, 0], true, body.len(), &body) else { panic!() };
    for (_, of_kind) in &mut header {
        if let Structure(fields) = of_kind {
            fields[1].1 = int(3);
        }
    }
    let text = column("s", BYTE_ARRAY, OPTIONAL, 3).page(Structure(header), &body);
    let batch = read_columns(3, &[text]).unwrap().remove(0);
    assert_eq!(batch.column(0).as_binary_view().iter().flatten().collect::<Vec<_>>(), [b"b", b"c"]);
}

/// More rows begin in a chunk than its row group has, so one of its levels is damaged.
#[test]
fn more_rows_than_the_row_group_has_are_refused() {
    let _alone = alone();
    let texts: Vec<u8> = (0..4).flat_map(|text| [1, 0, 0, 0, b'a' + text]).collect();
    for (repetition, is_sound) in [([4, 0, 2, 1, 2, 0], true), ([4, 0, 2, 0, 2, 0], false)] {
        let lists = [&[6, 0, 0, 0][..], &repetition, &[2, 0, 0, 0, 8, 1], &texts].concat();
        let read = read_columns(3, &[column("l", BYTE_ARRAY, REPEATED, 4).plain(4, PLAIN, &lists)]);
        match read {
            Ok(_) => assert!(is_sound),
            Err(error) => assert!(!is_sound && error.kind() == ErrorKind::Corrupt, "{error}"),
        }
    }
}

/// For the uncompressed size of a chunk, DuckDB before 0.6 wrote zero, and other writers wrote the stored
/// size. The headers of the pages have the right sizes.
#[test]
fn sizes_that_the_footer_does_not_tell_are_those_of_the_pages() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let texts = [&[200, 0, 0, 0][..], &[b'a'; 200]].concat().repeat(50);
    let packed = gzip(&texts);
    let page = data_page(50, PLAIN, texts.len(), &packed);
    let stored = (page.bytes().len() + packed.len()) as i64;
    for said in [0, -1, stored, stored / 3] {
        let column =
            WrittenColumn { uncompressed: said, ..column("s", BYTE_ARRAY, REQUIRED, 50).codec(GZIP) };
        let columns = [column.page(page.clone(), &packed)];
        assert_eq!(read_columns(50, &columns).unwrap()[0].column(0).as_binary_view().value(49), [b'a'; 200]);
        let (data, footer) = file(50, &columns);
        write(&path, data, &footer.bytes());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let location = path.to_str().unwrap().to_owned();
        let (_, catalog) = runtime.block_on(open(&[location], &BTreeMap::new())).unwrap();
        let held = catalog.held_bytes(&catalog.groups[0], &catalog.project_all().unwrap());
        assert!(held >= texts.len() as u64, "memory for {held} of {} bytes", texts.len());
    }
    // If the stated size is plausible, the pages must agree with it. The size of a column of numbers follows
    // from their count, and the pages must agree with that too.
    let little =
        WrittenColumn { uncompressed: stored * 2, ..column("s", BYTE_ARRAY, REQUIRED, 50).codec(GZIP) };
    assert_eq!(refusal(50, &[little.page(page, &packed)]).kind(), ErrorKind::Corrupt);
    let bomb = gzip(&vec![0; 1 << 20]);
    let numbers = WrittenColumn { uncompressed: 0, ..column("n", INT32, REQUIRED, 4).codec(GZIP) };
    let numbers = numbers.page(data_page(4, PLAIN, 1 << 20, &bomb), &bomb);
    assert!(refusal(4, &[numbers]).cause().starts_with("the pages hold 1048576 bytes"));
}

#[test]
fn a_dictionary_is_found_at_the_first_page() {
    let _alone = alone();
    for offset in [Some(0), Some(-1), Some(1 << 20), None] {
        let columns = honest().into_iter().map(|column| WrittenColumn { dictionary: offset, ..column });
        let batches = read_columns(4, &columns.collect::<Vec<_>>()).unwrap();
        assert_eq!(batches[0].column(1).as_binary_view().value(3), b"x", "{offset:?}");
    }
}

#[test]
fn a_column_of_nulls_needs_no_dictionary_and_no_indices() {
    let _alone = alone();
    for (encoding, body) in
        [(RLE_DICTIONARY, &[][..]), (RLE_DICTIONARY, &[0]), (DELTA_LENGTH, &[]), (DELTA_TEXT, &[])]
    {
        for physical in [BYTE_ARRAY, INT32] {
            let first = [&[2, 0, 0, 0, 6, 0][..], body].concat();
            let second = [&[6, 0][..], body].concat();
            let nulls = |name| column(name, physical, OPTIONAL, 3).page(dictionary_page(0, &[]), &[]);
            let columns = [
                nulls("a").plain(3, encoding, &first),
                nulls("b").page(
                    with_encoding(data_page_v2([3, 3], [2, 0], true, second.len(), &second), encoding),
                    &second,
                ),
            ];
            let batch = read_columns(3, &columns).unwrap().remove(0);
            assert!(batch.columns().iter().all(|column| column.null_count() == 3), "{encoding} {body:?}");
        }
    }
}

/// The header of a page of version 2 with another encoding.
fn with_encoding(mut header: ThriftValue, encoding: i64) -> ThriftValue {
    let Structure(fields) = &mut header else { return header };
    for (id, of_kind) in fields {
        if let (8, Structure(fields)) = (*id, of_kind) {
            fields.iter_mut().filter(|(id, _)| *id == 4).for_each(|(_, value)| *value = int(encoding));
        }
    }
    header
}

/// parquet-mr before 1.2.9 left the header of the dictionary page out of the size of its chunk.
#[test]
fn the_size_of_an_old_chunk_leaves_the_header_of_its_dictionary_out() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for (writer, is_read) in
        [("parquet-mr version 1.2.8 (build abc)", true), ("parquet-mr version 1.12.0", false)]
    {
        let (data, mut footer) = file(4, &honest());
        let missing = dictionary_page(2, &[0; 10]).bytes().len() as i64;
        let Structure(fields) = &mut footer else { panic!() };
        fields.iter_mut().filter(|(id, _)| *id == 6).for_each(|(_, by)| *by = Text(writer));
        let mut chunk = 0;
        footer.visit(&mut |value| {
            if let Structure(fields) = value
                && fields.iter().any(|(id, _)| *id == 9)
            {
                chunk += 1;
                let sizes = fields.iter_mut().filter(|(id, _)| *id == 7 && chunk == 2);
                sizes.for_each(|(_, size)| {
                    if let ThriftValue::Integer(_, size) = size {
                        *size -= missing;
                    }
                });
            }
        });
        write(&path, data, &footer.bytes());
        match read(&path) {
            Ok(batches) => {
                assert!(is_read);
                assert_eq!(batches[0].column(1).as_binary_view().value(3), b"x");
                assert_eq!(batches[0].column(0).as_primitive::<Int32Type>().values(), &[1, 2, 3, 4]);
            }
            Err(error) => assert!(!is_read && error.kind() == ErrorKind::Corrupt, "{error}"),
        }
    }
}

#[test]
fn what_a_footer_lists_beside_the_pages_refuses_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    // The footer lists encodings that no page uses.
    let columns =
        honest().into_iter().map(|column| WrittenColumn { encodings: vec![PLAIN, 99, 1, -7, RLE], ..column });
    assert_eq!(read_columns(4, &columns.collect::<Vec<_>>()).unwrap()[0].num_rows(), 4);
    // The file name, a negative count of nulls, and bounds that are too short.
    type Fields = Vec<(i16, ThriftValue)>;
    let change = |change: &dyn Fn(&mut Fields)| {
        let (data, mut footer) = file(4, &honest());
        footer.visit(&mut |value| {
            if let Structure(fields) = value {
                change(fields);
            }
        });
        write(&path, data, &footer.bytes());
        read(&path)
    };
    let named = |fields: &mut Vec<(i16, ThriftValue)>| {
        if fields.first().is_some_and(|(id, _)| *id == 2) && fields.iter().any(|(id, _)| *id == 5) {
            fields.insert(0, (1, Text("a.parquet")));
        }
    };
    assert_eq!(change(&named).unwrap()[0].num_rows(), 4);
    let no_count = |fields: &mut Vec<(i16, ThriftValue)>| {
        if fields.iter().any(|(_, value)| matches!(value, Text("zzzzzzzz"))) {
            fields[0].1 = long(-1);
        }
    };
    assert_eq!(change(&no_count).unwrap()[0].num_rows(), 4);
    let short = |fields: &mut Vec<(i16, ThriftValue)>| {
        fields
            .iter_mut()
            .filter(|(_, value)| matches!(value, Text("zzzzzzzz")))
            .for_each(|(_, bound)| *bound = Text(""));
    };
    assert_eq!(change(&short).unwrap()[0].num_rows(), 4);
}

/// One flipped bit of a level, in a page without a checksum, would give values that nobody stored.
#[test]
fn leaves_of_a_structure_that_disagree_are_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let numbers = |count: i32| (1..=count).flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
    let page = |levels: &[&[u8]], count: i32| {
        let levels =
            levels.iter().flat_map(|levels| [&(levels.len() as u32).to_le_bytes()[..], levels].concat());
        levels.chain(numbers(count)).collect::<Vec<u8>>()
    };
    // Puts both leaves into one group, or into two nested groups, with the repetitions in `around`.
    let read_both = |around: &[i64], [one, other]: [Vec<u8>; 2], [rows, values]: [i64; 2]| {
        let leaf = |name, body: &[u8]| column(name, INT32, REQUIRED, values).plain(values, PLAIN, body);
        let (data, mut footer) = file(rows, &[leaf("a", &one), leaf("b", &other)]);
        let Structure(fields) = &mut footer else { panic!() };
        let ThriftValue::List(.., schema) = &mut fields[1].1 else { panic!() };
        schema[0] = element("r", None, REQUIRED, Some(1));
        for (depth, repetition) in around.iter().enumerate() {
            let children = if depth + 1 == around.len() { 2 } else { 1 };
            schema.insert(1 + depth, element(["s", "t"][depth], None, *repetition, Some(children)));
        }
        write(&path, data, &footer.bytes());
        read(&path)
    };
    let all = page(&[&[8, 1]], 4);
    let but_second = page(&[&[2, 1, 2, 0, 4, 1]], 3);
    let twice = page(&[&[4, 1, 4, 1]], 4);
    assert_eq!(read_both(&[OPTIONAL], [all.clone(), twice], [4, 4]).unwrap()[0].num_rows(), 4);
    assert_eq!(
        read_both(&[OPTIONAL], [but_second.clone(), but_second.clone()], [4, 4]).unwrap()[0].num_rows(),
        4
    );
    let deep = |second: u8, count| page(&[&[2, 2, 2, second, 4, 2]], count);
    let lists = |repetition: &[u8], count| page(&[repetition, &[8, 1]], count);
    for (around, leaves) in [
        (&[OPTIONAL][..], [all.clone(), but_second.clone()]),
        (&[OPTIONAL], [but_second, all]),
        (&[OPTIONAL, OPTIONAL], [deep(0, 3), deep(1, 3)]),
        (&[OPTIONAL, OPTIONAL], [deep(2, 4), deep(1, 3)]),
        (&[REPEATED], [lists(&[4, 0, 2, 1, 2, 0], 4), lists(&[2, 0, 2, 1, 4, 0], 4)]),
    ] {
        let rows = if around == [REPEATED] { 3 } else { 4 };
        let error = read_both(around, leaves, [rows, 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{around:?}: {error}");
        assert!(error.cause().contains("disagree"), "{around:?}: {error}");
    }
}

/// Arrow before 3.0 compressed data pages of version 2, but their headers said that they are not compressed.
#[test]
fn a_page_that_denies_its_compression_is_read() {
    let _alone = alone();
    let numbers: Vec<u8> = (1..=5i32).flat_map(i32::to_le_bytes).collect();
    let stream = [&[20, 19 << 2][..], &numbers].concat();
    let page = |flag| data_page_v2([5, 5], [0, 0], flag, numbers.len(), &stream);
    for flag in [true, false] {
        let columns =
            [column("n", INT32, REQUIRED, 5).codec(SNAPPY).page(page(flag), &stream), honest_five()];
        let batches = read_columns(5, &columns).unwrap();
        assert_eq!(batches[0].column(0).as_primitive::<Int32Type>().values(), &[1, 2, 3, 4, 5]);
        assert_eq!(batches[0].column(1).as_primitive::<Int32Type>().values(), &[1, 2, 3, 4, 5]);
    }
}

/// A column with a codec, whose only page is not compressed and says so.
fn honest_five() -> WrittenColumn {
    let numbers: Vec<u8> = (1..=5i32).flat_map(i32::to_le_bytes).collect();
    let page = data_page_v2([5, 5], [0, 0], false, numbers.len(), &numbers);
    column("m", INT32, REQUIRED, 5).codec(SNAPPY).page(page, &numbers)
}

#[test]
fn columns_that_share_their_bytes_are_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let body = vec![0; 4000];
    let columns = names.map(|name| column(name, INT32, REQUIRED, 1000).plain(1000, PLAIN, &body));
    let (data, mut footer) = file(1000, &columns);
    // All eight columns claim the place of the first one, in a file that is only as long as two columns.
    let size = data.len() as i64 / 8;
    footer.visit(&mut |value| {
        if let Structure(fields) = value {
            fields
                .iter_mut()
                .filter(|(id, value)| *id == 9 && value.kind() == I64)
                .for_each(|(_, value)| *value = long(4));
        }
    });
    write(&path, data[..2 * size as usize].to_vec(), &footer.bytes());
    let error = read(&path).unwrap_err();
    assert!(error.cause().starts_with("the column chunks are said to be"), "{error}");
}

/// A sparse file costs nothing to make, but gigabytes to read.
#[test]
fn a_footer_of_gigabytes_is_not_read() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"PAR1").unwrap();
    file.seek(SeekFrom::Start(3 << 30)).unwrap();
    file.write_all(&(2u32 << 30).to_le_bytes()).unwrap();
    file.write_all(b"PAR1").unwrap();
    let (read, weight) = weighed(|| read(&path));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(weight < MOST_MEMORY, "{weight}");
}

/// Nanoseconds in 64 bits cover the years 1677 to 2262. The old form of times covers more, and the Parquet
/// crate would wrap around.
#[test]
fn a_time_that_nanoseconds_cannot_tell_is_refused() {
    const EPOCH: u32 = 2_440_588;
    const DAY: i64 = 86_400_000_000_000;
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for (days, expected) in [
        (0, true),
        (106_750, true),
        (-106_750, true),
        (106_752, false),
        (-106_753, false),
        (3_000_000, false),
    ] {
        let schema = Arc::new(parse_message_type("message r { required int96 t; }").unwrap());
        let file = fs::File::create(&path).unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let of = |day: i64| Int96::from(vec![5, 0, (i64::from(EPOCH) + day) as u32]);
        column.typed::<Int96Type>().write_batch(&[of(1), of(days)], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        match read(&path) {
            Ok(batches) => {
                assert!(expected, "{days}");
                let times = batches[0].column(0).as_primitive::<TimestampNanosecondType>();
                assert_eq!(times.values(), &[DAY + 5, days * DAY + 5]);
            }
            Err(error) => {
                assert!(!expected, "{days}: {error}");
                assert_eq!((error.kind(), error.place().row), (ErrorKind::Unsupported, Some(1)));
            }
        }
    }
}

/// Draws random changes from a seed: of numbers, types and counts in footers and page headers, and of bytes
/// in pages.
#[test]
fn whatever_is_changed_it_is_an_error_or_rows_in_little_memory() {
    const CASES: u32 = 2_500;
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) as usize % below
    };
    let edges = [
        0,
        1,
        -1,
        2,
        127,
        1 << 15,
        i64::from(i32::MAX),
        1 << 31,
        1 << 32,
        (1 << 32) + 1,
        1 - (1 << 32),
        i64::MAX,
        i64::MIN,
    ];
    let (mut read_whole, mut wrong) = (0, Vec::new());
    // The Parquet crate panics on some of these files. The panics are caught, but printing them would take
    // memory that is not the reader's own.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for case in 0..CASES {
        let mut columns = honest();
        let mut change = |value: &mut ThriftValue| {
            let at = next(value.all());
            let (kind, edge, sort) = (next(16) as u8, edges[next(edges.len())], next(4));
            let mut seen = 0;
            value.visit(&mut |value| {
                seen += 1;
                if seen != at + 1 {
                    return;
                }
                match value {
                    _ if sort == 0 => *value = ThriftValue::As(kind, Box::new(value.clone())),
                    ThriftValue::Integer(_, number) if sort == 1 => {
                        *number = number.wrapping_add(edge.signum() | 1)
                    }
                    ThriftValue::Integer(_, number) => *number = edge,
                    ThriftValue::List(of, _, _) if sort == 1 => *of = kind,
                    ThriftValue::List(_, more, _) => *more = edge,
                    Bool(flag) => *flag = !*flag,
                    Structure(fields) => _ = fields.pop(),
                    Text(text) => *text = "",
                    ThriftValue::As(..) => {}
                }
            });
        };
        if case % 3 > 0 {
            let changed = case as usize % columns.len();
            let pages = &mut columns[changed].pages;
            let page = pages.len() - 1;
            change(&mut pages[page].0);
        }
        let (mut data, mut footer) = file(4, &columns);
        if case % 3 < 2 {
            change(&mut footer);
        }
        if case % 5 == 0 {
            let at = 4 + next(data.len() - 4);
            data[at] = next(256) as u8;
        }
        write(&path, data, &footer.bytes());
        let (read, weight) = weighed(|| read(&path));
        match read {
            Err(error) if error.kind() == ErrorKind::Internal => wrong.push(format!("case {case}: {error}")),
            read if weight > MOST_MEMORY => {
                wrong.push(format!("case {case}: {weight} bytes: {:?}", read.err()))
            }
            read => read_whole += u32::from(read.is_ok()),
        }
    }
    std::panic::set_hook(hook);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read_whole > 0 && read_whole < CASES, "{read_whole}");
}
