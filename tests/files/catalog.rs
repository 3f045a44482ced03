//! From locations to a catalogue: the files, their order, and the text of each refusal.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, says what it skips, and is its own loader"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use forebay::Filter;
use forebay::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationNanosecondArray, FixedSizeBinaryArray, FixedSizeListArray, Float16Array, Float32Array,
    Float64Array, Int32Array, Int64Array, IntervalYearMonthArray, LargeListArray, LargeStringArray,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, TimestampSecondArray, UInt8Array,
    UInt64Array,
};
use forebay::arrow::buffer::NullBuffer;
use forebay::arrow::compute::concat_batches;
use forebay::arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Int16Type, Int64Type, i256};
use forebay::filter::{Op, Term, Value};
use forebay::rows::RowGroupMatch;
use forebay::rows::read_part;
use forebay::{Error, ErrorKind, Result};
use forebay_store::catalog::Catalog;
use forebay_store::source::{Footers, Store, open};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tempfile::TempDir;

const PLENTY: u64 = 1 << 30;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", values)]).unwrap()
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn plain() -> WriterProperties {
    WriterProperties::builder().build()
}

fn small_groups(rows: usize) -> WriterProperties {
    WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build()
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn open_all(locations: &[String]) -> Result<(Store, Catalog)> {
    wait(open(locations, &BTreeMap::new()))
}

fn open_one(location: impl AsRef<Path>) -> Result<(Store, Catalog)> {
    open_all(&[location.as_ref().to_str().unwrap().to_owned()])
}

fn refusal(location: impl AsRef<Path>) -> Error {
    open_one(location).expect_err("it was opened")
}

fn relative(catalog: &Catalog) -> Vec<&str> {
    catalog.files.iter().map(|file| &*file.relative).collect()
}

/// Reads some columns of one row group.
fn part(
    store: &Store,
    catalog: &Catalog,
    columns: &[&str],
    group: usize,
    selection: Option<&RowSelection>,
    limit: u64,
) -> Result<RecordBatch> {
    let projection = catalog.project(columns)?;
    let ranges = catalog.byte_ranges(&catalog.groups[group], &projection)?;
    let bytes = wait(store.read_ranges(&catalog.files[catalog.groups[group].file], &ranges))?;
    read_part(catalog, &projection, group, selection, ranges.into_iter().zip(bytes).collect(), limit)
}

fn all_numbers(store: &Store, catalog: &Catalog) -> Vec<i64> {
    let parts: Vec<RecordBatch> = (0..catalog.groups.len())
        .map(|group| part(store, catalog, &["n"], group, None, PLENTY).unwrap())
        .collect();
    let all = concat_batches(&catalog.schema, &parts).unwrap();
    all.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

#[test]
fn files_come_in_the_order_of_their_relative_paths_and_what_is_not_data_is_passed_over() {
    let folder = folder();
    for (name, value) in [("b.parquet", 3), ("a/z.parquet", 1), ("a.parquet", 0), ("a/k1/x.PARQUET", 2)] {
        write(&folder.path().join(name), &numbers([value]), plain());
    }
    for name in
        ["_SUCCESS", "_metadata", ".b.parquet.crc", "readme.txt", "_temporary/0/c.parquet", ".git/d.parquet"]
    {
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), "not Parquet").unwrap();
    }
    let (store, catalog) = open_one(folder.path()).unwrap();
    assert_eq!(relative(&catalog), ["a.parquet", "a/k1/x.PARQUET", "a/z.parquet", "b.parquet"]);
    assert_eq!(all_numbers(&store, &catalog), [0, 2, 1, 3]);
    assert_eq!(catalog.rows(), 4);
    assert_eq!(catalog.groups[2].first_row, 2);
}

#[test]
fn a_list_a_glob_a_url_and_a_folder_give_the_same_data_set() {
    let folder = folder();
    let root = folder.path().join("a b%41");
    for name in ["x.parquet", "y.parquet", "z.parquet"] {
        write(&root.join(name), &numbers([1, 2]), plain());
    }
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let url = format!("file://{}", root.to_str().unwrap().replace('%', "%25").replace(' ', "%20"));
    let (_, whole) = open_one(&root).unwrap();
    for locations in [
        vec![at("z.parquet"), at("x.parquet"), at("y.parquet")],
        vec![at("*.parquet")],
        vec![at("[xy].parquet"), at("z.parquet")],
        vec![url],
    ] {
        let (store, catalog) = open_all(&locations).unwrap();
        assert_eq!(relative(&catalog), ["x.parquet", "y.parquet", "z.parquet"]);
        assert_eq!(catalog.fingerprint, whole.fingerprint);
        assert_eq!(all_numbers(&store, &catalog).len(), 6);
    }
}

#[test]
fn a_copy_has_the_same_fingerprint_and_other_data_another() {
    let (one, two) = (folder(), folder());
    write(&one.path().join("a.parquet"), &numbers([1, 2]), plain());
    fs::copy(one.path().join("a.parquet"), two.path().join("a.parquet")).unwrap();
    let (_, first) = open_one(one.path()).unwrap();
    let (_, second) = open_one(two.path()).unwrap();
    assert_eq!(first.fingerprint, second.fingerprint);
    write(&two.path().join("a.parquet"), &numbers([1, 3]), plain());
    assert_ne!(first.fingerprint, open_one(two.path()).unwrap().1.fingerprint);
}

#[test]
fn a_named_file_is_read_whatever_its_suffix_and_a_folder_of_bare_names_too() {
    let folder = folder();
    write(&folder.path().join("x.data"), &numbers([1]), plain());
    assert_eq!(open_one(folder.path().join("x.data")).unwrap().1.rows(), 1);
    assert_eq!(open_one(folder.path().join("*.data")).unwrap().1.rows(), 1);
    let error = refusal(folder.path());
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().ends_with("the folder holds no Parquet file (it has x.data)"), "{error}");
    write(&folder.path().join("part-00000"), &numbers([1, 2]), plain());
    assert_eq!(open_one(folder.path()).unwrap().1.rows(), 2);
}

#[test]
fn what_is_not_there_is_said_so() {
    let folder = folder();
    assert_eq!(refusal(folder.path().join("absent")).kind(), ErrorKind::NotFound);
    assert_eq!(refusal(folder.path().join("absent/*.parquet")).kind(), ErrorKind::NotFound);
    assert_eq!(refusal(folder.path().join("*.parquet")).kind(), ErrorKind::NotFound);
    assert!(
        refusal(folder.path())
            .to_string()
            .ends_with("(it is empty, but for files whose names begin with _ or .)")
    );
    assert_eq!(open_all(&[]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(refusal("ftp://acme/train").kind(), ErrorKind::Unsupported);
    assert_eq!(refusal("").kind(), ErrorKind::Invalid);
    let options = BTreeMap::from([("region".to_owned(), "x".to_owned())]);
    assert_eq!(wait(open(&[".".into()], &options)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_file_that_two_locations_match_is_refused() {
    let folder = folder();
    write(&folder.path().join("a.parquet"), &numbers([1]), plain());
    let locations =
        ["*.parquet", "../x/a.parquet"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let twice = [locations[0].clone(), folder.path().to_str().unwrap().to_owned()];
    let error = open_all(&twice).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let said = error.to_string();
    assert!(
        said.contains("a.parquet: the file is matched by two locations (leave one of them out"),
        "{said}"
    );
}

#[test]
fn an_empty_file_is_loud_and_a_file_without_rows_is_not() {
    let folder = folder();
    write(&folder.path().join("a.parquet"), &numbers([]), plain());
    write(&folder.path().join("b.parquet"), &numbers([7]), plain());
    let (store, catalog) = open_one(folder.path()).unwrap();
    assert_eq!((catalog.files.len(), catalog.groups.len(), catalog.rows()), (2, 1, 1));
    assert_eq!(all_numbers(&store, &catalog), [7]);
    // Without a row, a file has no value of another type.
    let texts: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let other = RecordBatch::try_from_iter([("n", texts.clone()), ("m", texts)]).unwrap();
    write(&folder.path().join("0.parquet"), &other, plain());
    let (store, catalog) = open_one(folder.path()).unwrap();
    assert_eq!((catalog.files.len(), catalog.groups.len(), catalog.rows()), (3, 1, 1));
    assert_eq!(all_numbers(&store, &catalog), [7]);
    fs::write(folder.path().join("c.parquet"), "").unwrap();
    let error = refusal(folder.path());
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("c.parquet: the file is empty"), "{error}");
}

#[test]
fn a_damaged_file_says_how_it_is_damaged() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    write(&path, &numbers(0..1000), plain());
    let sound = fs::read(&path).unwrap();
    let end = sound.len();
    let mut endless = sound.clone();
    endless[end - 8..end - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut scrambled = sound.clone();
    scrambled[end - 60..end - 20].fill(0xff);
    for (bytes, sentence) in [
        (&sound[..end - 1], "truncated"),
        (&sound[..3], "not a Parquet file: starts with \"PAR\""),
        (b"<html>404</html>", "not a Parquet file: starts with \"<html>40\""),
        (&endless, "the footer's length is given as 4294967295 bytes"),
        (&scrambled, "malformed"),
        (&[&sound[..4], &sound[end - 8..]].concat(), "the footer's length"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = refusal(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(sentence) && error.to_string().contains("a.parquet: "), "{error}");
    }
    let mut encrypted = sound;
    encrypted[end - 1] = b'E';
    fs::write(&path, encrypted).unwrap();
    assert_eq!(refusal(&path).kind(), ErrorKind::Unsupported);
}

#[test]
fn tables_with_a_list_of_live_files_are_refused_as_folders_and_their_files_are_read() {
    let signs = [(".hoodie/x", "a Hudi"), ("_versions/1.manifest", "a Lance")];
    for (marker, name) in signs {
        let folder = folder();
        let table = folder.path().join("table");
        let data = table.join("data/k=1/a.parquet");
        write(&data, &numbers([1]), plain());
        fs::create_dir_all(table.join(marker).parent().unwrap()).unwrap();
        fs::write(table.join(marker), "{}").unwrap();
        // A glob that matches a file beside the table and does not reach into it is accepted.
        write(&folder.path().join("beside.parquet"), &numbers([1]), plain());
        assert_eq!(open_one(folder.path().join("*.parquet")).unwrap().1.rows(), 1);
        let inside = [table.join("data/k=1"), table.join("data/k=*/*.parquet"), table.join("data/**")];
        // A Lance table has no Parquet files.
        let inside = inside.into_iter().filter(|_| name != "a Lance");
        for place in [folder.path().to_owned(), table.clone()].into_iter().chain(inside) {
            let error = refusal(&place);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let sentence = error.to_string();
            assert!(sentence.contains(&format!("this is the folder of {name} table")), "{sentence}");
            // A list of the files would differ from the table, in which rows are deleted and columns renamed.
            assert!(sentence.contains("(write the table's rows to plain Parquet"), "{sentence}");
        }
        assert_eq!(open_one(&data).unwrap().1.rows(), 1);
    }
}

#[test]
fn the_keys_of_partition_folders_are_columns_unless_the_location_names_them() {
    let folder = folder();
    let table = folder.path().join("t");
    for (day, hour) in [("1", "7"), ("1", "8h"), ("2", "7"), ("__HIVE_DEFAULT_PARTITION__", "7")] {
        let path = table.join(format!("day={day}/hour={hour}/p.parquet"));
        write(&path, &numbers([hour.len() as i64]), plain());
    }
    let columns = |location: &Path| -> Vec<String> {
        let (_, catalog) = open_one(location).unwrap();
        catalog
            .schema
            .fields()
            .iter()
            .skip(1)
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect()
    };
    for location in ["", "*/*/*.parquet", "**/*.parquet"] {
        assert_eq!(columns(&table.join(location)), ["day Int64", "hour Utf8View"], "{location}");
    }
    assert_eq!(columns(&table.join("day=1")), ["hour Utf8View"]);
    assert_eq!(columns(&table.join("day=*")), ["hour Utf8View"]);
    for location in ["day=*/hour=*/*.parquet", "day=*/hour=*", "**/day=*/hour=[0-9]/*", "day=1/hour=8h"] {
        assert_eq!(columns(&table.join(location)), [""; 0], "{location}");
    }
    let (store, catalog) = open_one(&table).unwrap();
    let parts = (0..catalog.groups.len())
        .map(|group| part(&store, &catalog, &["n", "day", "hour"], group, None, PLENTY).unwrap());
    let parts: Vec<RecordBatch> = parts.collect();
    let all = concat_batches(&parts[0].schema(), &parts).unwrap();
    let days: Vec<Option<i64>> = all.column(1).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(days, [Some(1), Some(1), Some(2), None]);
    assert_eq!(all.column(2).as_string_view().iter().flatten().collect::<Vec<_>>(), ["7", "8h", "7", "7"]);

    // A file beside the folders has no value for their keys, which matters only if the keys are read.
    write(&table.join("beside.parquet"), &numbers([0]), plain());
    let (store, catalog) = open_one(&table).unwrap();
    assert!(part(&store, &catalog, &["n"], 0, None, PLENTY).is_ok());
    let error = part(&store, &catalog, &["day"], 0, None, PLENTY).unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("day"), "{error}");
}

#[test]
fn partition_keys_that_the_files_hold_as_columns_are_not_lost() {
    let folder = folder();
    for n in 0..2 {
        write(&folder.path().join(format!("n={n}/p.parquet")), &numbers([n]), plain());
    }
    let (store, catalog) = open_one(folder.path()).unwrap();
    assert_eq!(all_numbers(&store, &catalog), [0, 1]);
}

#[test]
fn a_name_with_the_characters_of_a_pattern_is_found_and_a_pattern_beside_it_too() {
    let folder = folder();
    for (name, value) in
        [("x[1].parquet", 1), ("x1.parquet", 2), ("a?b#c%41.parquet", 3), ("all*/y.parquet", 4)]
    {
        write(&folder.path().join(name), &numbers([value]), plain());
    }
    let root = folder.path().to_str().unwrap();
    for (location, value) in [
        (format!("{root}/x[1].parquet"), 1),
        (format!("file://{root}/x[1].parquet"), 1),
        (format!("file:{root}/x%5B1%5D.parquet"), 1),
        (format!("{root}/x[1-2].parquet"), 2),
        (format!("{root}/a?b#c%41.parquet"), 3),
        (format!("file://{root}/a%3Fb%23c%2541.parquet"), 3),
        (format!("file://{root}/a?b#c%41.parquet"), 3),
        (format!("{root}/all*"), 4),
    ] {
        let (store, catalog) = open_one(&location).unwrap_or_else(|error| panic!("{location}: {error}"));
        assert_eq!(all_numbers(&store, &catalog), [value], "{location}");
    }
}

#[test]
fn a_mistyped_url_is_not_repeated_with_its_secret() {
    for location in [
        "https:/ann:CANARY@host/x.parquet",
        "ann:CANARY@host/x.parquet",
        "htps//ann:CANARY@host/*.parquet",
        "/data/x.parquet?X-Amz-Signature=CANARY",
        "no/such/https://ann:CANARY@host",
        " s3://AKIA:CANARY@bucket/x",
        "file://ann:CANARY@host/x",
        "file:///no/such?sig=CANARY",
        "https://h/x\0?sig=CANARY",
    ] {
        let error = refusal(location);
        assert!(!format!("{error}{error:?}").contains("CANARY"), "{location}: {error}");
    }
}

#[test]
fn files_may_differ_in_order_nullability_and_width_of_strings_and_in_nothing_else() {
    let folder = folder();
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["y", "z"]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter(["v", "w"]));
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let at = |name: &str| folder.path().join(name);
    let set = |columns: Vec<(&str, ArrayRef)>| RecordBatch::try_from_iter(columns).unwrap();
    write(&at("a.parquet"), &set(vec![("n", ints.clone()), ("s", large)]), plain());
    write(&at("b.parquet"), &set(vec![("s", text.clone()), ("n", ints.clone())]), plain());
    write(&at("c.parquet"), &set(vec![("n", ints.clone()), ("s", dictionary)]), plain());
    let (store, catalog) = open_one(folder.path()).unwrap();
    assert_eq!(*catalog.schema.field(1), Field::new("s", DataType::Utf8View, true));
    let mut strings = Vec::new();
    for group in 0..3 {
        let batch = part(&store, &catalog, &["s", "n"], group, None, PLENTY).unwrap();
        let column = batch
            .column(0)
            .as_any()
            .downcast_ref::<forebay::arrow::array::StringViewArray>()
            .unwrap()
            .clone();
        strings.extend(column.iter().map(|value| value.map(str::to_owned)).collect::<Vec<_>>());
    }
    assert_eq!(strings, ["y", "z", "x", "", "v", "w"].map(|s| (!s.is_empty()).then(|| s.to_owned())));

    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for (columns, sentence) in [
        (vec![("n", narrow), ("s", text.clone())], "column \"n\": want int64 as in"),
        (vec![("n", ints.clone())], "column \"s\": this file has no such column, "),
        (
            vec![("n", ints.clone()), ("s", text.clone()), ("t", text.clone())],
            "has no such column, this file has it as string",
        ),
    ] {
        write(&at("d.parquet"), &set(columns), plain());
        let (_, catalog) = open_one(folder.path()).unwrap();
        let error = catalog.project_all().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        // Reading only the other column works.
        let name = error.place().column.clone().unwrap();
        assert!(catalog.project(&[if &*name == "n" { "s" } else { "n" }]).is_ok());
        assert_eq!(catalog.refused().len(), 1);
        let said = error.to_string();
        assert!(
            said.contains(sentence) && said.contains("a.parquet") && said.contains("d.parquet"),
            "{said}"
        );
    }
}

/// A field of intervals, which cannot be read.
fn span(name: &str, rows: usize) -> (FieldRef, ArrayRef) {
    let spans = IntervalYearMonthArray::from(vec![1; rows]);
    (Arc::new(Field::new(name, spans.data_type().clone(), false)), Arc::new(spans))
}

#[test]
fn an_unknown_or_unreadable_column_is_named() {
    let folder = folder();
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let odd: ArrayRef = Arc::new(StructArray::from(vec![span("x", 1)]));
    let batch = RecordBatch::try_from_iter([("label", ints), ("odd", odd)]).unwrap();
    write(&folder.path().join("a.parquet"), &batch, plain());
    let (_, catalog) = open_one(folder.path()).unwrap();
    let sentence = |names: &[&str]| catalog.project(names).unwrap_err().to_string();
    assert_eq!(
        sentence(&["lable"]),
        "there is no column \"lable\" (did you mean \"label\"? the columns are label, odd)"
    );
    assert_eq!(
        sentence(&["odd"]),
        "column \"odd\": type struct<x: interval of months> is not read: the months of intervals would be lost \
         (leave it out with columns, or write it as a number or a duration)"
    );
    assert_eq!(sentence(&["label", "label"]), "column \"label\" is selected twice");
    assert!(catalog.project_all().is_err() && catalog.project(&["label"]).is_ok());
}

#[test]
fn all_columns_that_are_not_read_are_named_at_once_and_in_short() {
    let folder = folder();
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let wide: Vec<_> = (0..400)
        .map(|at| match at {
            0 => span("field_0", 2),
            _ => (Arc::new(Field::new(format!("field_{at}"), DataType::Int64, false)), ints.clone()),
        })
        .collect();
    let wide: ArrayRef = Arc::new(StructArray::from(wide));
    let mut columns = vec![("label".to_owned(), ints)];
    columns.extend((0..30).map(|at| (format!("wide_{at}"), wide.clone())));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write(&folder.path().join("a.parquet"), &batch, plain());
    let (_, catalog) = open_one(folder.path()).unwrap();
    let error = catalog.project_all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let sentence = error.to_string();
    assert!(sentence.starts_with("30 columns are of types that are not read: \"wide_0\" (struct of 400), "));
    assert!(sentence.ends_with(" and 10 more (leave them out with columns)"), "{sentence}");
    assert!(sentence.len() < 1000, "{} characters", sentence.len());
    let one = catalog.project(&["label", "wide_3"]).unwrap_err().to_string();
    assert_eq!(
        one,
        "column \"wide_3\": type struct of 400 is not read: the months of intervals would be lost \
         (leave it out with columns, or write it as a number or a duration)"
    );
    assert_eq!(catalog.refused().len(), 30);
}

#[test]
fn a_file_that_changes_is_not_read() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    use ErrorKind::{DatasetChanged, NotFound};
    for (change, kind, sentence) in [
        ((|path| write(path, &numbers(0..500), plain())) as fn(&Path), DatasetChanged, "it had "),
        (
            |path| fs::File::open(path).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap(),
            DatasetChanged,
            "mtime:0 now",
        ),
        (
            |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(40).unwrap(),
            DatasetChanged,
            "40 now",
        ),
        (|path| fs::remove_file(path).unwrap(), NotFound, "No such file"),
    ] {
        write(&path, &numbers(0..100), plain());
        let (store, catalog) = open_one(folder.path()).unwrap();
        change(&path);
        let error = part(&store, &catalog, &["n"], 0, None, PLENTY).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(sentence) && error.to_string().contains("a.parquet: "), "{error}");
    }
}

#[test]
fn only_selected_rows_are_read_and_columns_come_in_the_order_asked_for() {
    let folder = folder();
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|i| format!("row {i}"))));
    let batch = RecordBatch::try_from_iter([("n", ints), ("s", text)]).unwrap();
    write(&folder.path().join("a.parquet"), &batch, small_groups(40));
    let (store, catalog) = open_one(folder.path()).unwrap();
    assert_eq!(catalog.groups.iter().map(|group| group.rows).collect::<Vec<_>>(), [40, 40, 20]);
    let selection = RowSelection::from(vec![RowSelector::skip(5), RowSelector::select(2)]);
    let read = part(&store, &catalog, &["s", "n"], 1, Some(&selection), PLENTY).unwrap();
    let n = read.column(1).as_any().downcast_ref::<Int64Array>().unwrap();
    assert_eq!(n.values(), &[45, 46]);
    assert_eq!(read.schema().field(0).name(), "s");
    assert_eq!(part(&store, &catalog, &[], 2, None, PLENTY).unwrap().num_rows(), 20);
    let none = RowSelection::from(vec![RowSelector::skip(40)]);
    assert_eq!(part(&store, &catalog, &["n"], 0, Some(&none), PLENTY).unwrap().num_rows(), 0);
}

#[test]
fn views_into_plain_pages_point_into_the_fetched_bytes() {
    let folder = folder();
    let blobs: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..8u8).map(|i| vec![i; 10_000])));
    let batch = RecordBatch::try_from_iter([("b", blobs)]).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .build();
    write(&folder.path().join("a.parquet"), &batch, properties);
    let (store, catalog) = open_one(folder.path()).unwrap();
    let projection = catalog.project(&["b"]).unwrap();
    let ranges = catalog.byte_ranges(&catalog.groups[0], &projection).unwrap();
    let bytes = wait(store.read_ranges(&catalog.files[0], &ranges)).unwrap();
    let span = bytes[0].as_ptr_range();
    // The limit is below the size of the bytes, so nothing of that size is allocated again.
    let chunks = ranges.into_iter().zip(bytes).collect();
    let read = read_part(&catalog, &projection, 0, None, chunks, 4096).unwrap();
    let views = read.column(0).as_any().downcast_ref::<forebay::arrow::array::BinaryViewArray>().unwrap();
    assert!((0..8).all(|row| span.contains(&views.value(row).as_ptr())));
}

#[test]
fn every_type_that_is_read_comes_as_it_was_written() {
    let folder = folder();
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let image = StructArray::new(
        vec![Field::new("bytes", DataType::Binary, true), Field::new("path", DataType::Utf8, true)].into(),
        vec![
            Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x89PNG and more than fits"), None, None])),
            Arc::new(StringArray::from(vec![None, None, Some("a.png")])),
        ],
        nulls.clone(),
    );
    let fixed = FixedSizeListArray::new(
        item(DataType::Float32),
        2,
        Arc::new(Float32Array::from(vec![Some(1.0), None, Some(0.0), None, Some(-0.0), Some(f32::INFINITY)])),
        nulls.clone(),
    );
    let lists = LargeListArray::from_iter_primitive::<Int16Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("image", Arc::new(image)),
        ("fixed", Arc::new(fixed)),
        ("lists", Arc::new(lists)),
        (
            "decimal",
            Arc::new(
                Decimal128Array::new(vec![1, 2, 3].into(), nulls.clone())
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
        ),
        (
            "wide",
            Arc::new(Decimal256Array::new(
                vec![1, 2, 3].into_iter().map(i256::from).collect(),
                nulls.clone(),
            )),
        ),
        (
            "zoned",
            Arc::new(
                TimestampMicrosecondArray::new(vec![1, 2, 3].into(), nulls.clone())
                    .with_timezone("Europe/Paris"),
            ),
        ),
        ("coarse", Arc::new(TimestampSecondArray::new(vec![1, 2, 3].into(), nulls.clone()))),
        ("span", Arc::new(DurationNanosecondArray::new(vec![1, 2, 3].into(), nulls.clone()))),
        (
            "half",
            Arc::new(Float16Array::new(
                vec![half::f16::NAN, half::f16::ONE, half::f16::NEG_ZERO].into(),
                nulls.clone(),
            )),
        ),
        ("tiny", Arc::new(UInt8Array::new(vec![0, 1, 255].into(), nulls))),
        (
            "bytes",
            Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4], [5, 6]].into_iter()).unwrap()),
        ),
    ];
    let written =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let properties = WriterProperties::builder().set_compression(compression).build();
        write(&folder.path().join("a.parquet"), &written, properties);
        let (store, catalog) = open_one(folder.path()).unwrap();
        let names: Vec<&str> = catalog.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let read = part(&store, &catalog, &names, 0, None, PLENTY).unwrap();
        for name in &names[1..] {
            assert_eq!(read.column_by_name(name).unwrap(), written.column_by_name(name).unwrap(), "{name}");
        }
        let image = read.column(0).as_struct();
        assert_eq!(image.column(0).as_binary_view().value(0), b"\x89PNG and more than fits");
        assert_eq!(image.column(1).as_string_view().value(2), "a.png");
        assert!(image.is_null(1) && image.column(0).is_null(2) && image.column(1).is_null(0));
    }
}

/// The test is slow, and must run alone because it measures the memory of the whole process.
#[test]
#[ignore = "links a hundred thousand files; run it alone"]
fn a_hundred_thousand_files_open_in_time_and_memory() {
    const FILES: usize = 100_000;
    const COLUMNS: usize = 200;
    const MOST_SECONDS: u64 = 90;
    const MOST_KIB: u64 = 300 << 10;
    let folder = folder();
    let columns = (0..COLUMNS)
        .map(|column| (format!("column_{column}"), Arc::new(StringArray::from(vec!["x"; 10])) as ArrayRef));
    let mut original = folder.path().join("0.parquet");
    write(&original, &RecordBatch::try_from_iter(columns).unwrap(), plain());
    for file in 1..FILES {
        let into = folder.path().join(format!("{}", file / 1000));
        fs::create_dir_all(&into).unwrap();
        let path = into.join(format!("{file}.parquet"));
        // A file system permits about 65,000 hard links to one file.
        if file.is_multiple_of(1000) {
            fs::copy(&original, &path).unwrap();
            original = path;
        } else {
            fs::hard_link(&original, path).unwrap();
        }
    }
    let start = std::time::Instant::now();
    let (_, catalog) = open_one(folder.path()).unwrap();
    let elapsed = start.elapsed();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("{elapsed:?}, {peak} KiB at most");
    assert_eq!(catalog.files.len(), FILES);
    assert!(elapsed.as_secs() < MOST_SECONDS && peak < MOST_KIB, "{elapsed:?} {peak} KiB");
}

#[test]
fn a_bomb_is_refused_before_it_goes_off() {
    let folder = folder();
    let path = folder.path().join("bomb.parquet");
    let value = "x".repeat(8 << 20);
    let long: ArrayRef = Arc::new(StringArray::from_iter_values([value.as_str(), &value[1..], &value[2..]]));
    let repeated: ArrayRef =
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&value[..1 << 20], 400)));
    let zeros: ArrayRef = Arc::new(Int64Array::from_iter_values(std::iter::repeat_n(0, 4 << 20)));
    let builder = || WriterProperties::builder().set_dictionary_enabled(false);
    let plain_of = |compression| builder().set_compression(compression).build();
    let delta = builder().set_encoding(Encoding::DELTA_BYTE_ARRAY).build();
    let dictionary = WriterProperties::builder().set_max_row_group_row_count(Some(4 << 20)).build();
    for (column, properties) in [
        (&long, plain_of(Compression::BROTLI(BrotliLevel::default()))),
        (&long, plain_of(Compression::GZIP(GzipLevel::default()))),
        (&long, plain_of(Compression::ZSTD(ZstdLevel::default()))),
        (&long, plain_of(Compression::SNAPPY)),
        (&long, plain_of(Compression::LZ4_RAW)),
        (&repeated, delta),
        (&zeros, dictionary),
    ] {
        write(&path, &RecordBatch::try_from_iter([("c", column.clone())]).unwrap(), properties);
        let (store, catalog) = open_one(&path).unwrap();
        for limit in [1 << 10, 1 << 20, 4 << 20] {
            let error = part(&store, &catalog, &["c"], 0, None, limit).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
            assert!(error.to_string().contains("bomb.parquet, row group 0, column \"c\": "), "{error}");
        }
        assert_eq!(part(&store, &catalog, &["c"], 0, None, PLENTY).unwrap().num_rows(), column.len());
    }
}

/// Random bytes are changed, in the footer too: the result must be rows or an error, in little time and
/// memory.
#[test]
fn mutants_give_rows_or_an_error() {
    const MUTANTS: u64 = 2_000;
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let ints: ArrayRef = Arc::new(Int64Array::from_iter((0..300).map(|i| (i % 7 != 0).then_some(i * 3))));
    let text: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..300).map(|i| format!("text {}", i % 40))));
    let lists =
        forebay::arrow::array::ListArray::from_iter_primitive::<forebay::arrow::datatypes::Int32Type, _, _>(
            (0..300).map(|i| Some((0..i % 5).map(Some))),
        );
    let batch =
        RecordBatch::try_from_iter([("n", ints), ("s", text), ("l", Arc::new(lists) as ArrayRef)]).unwrap();
    for (form, compression) in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(GzipLevel::default())]
            .into_iter()
            .enumerate()
    {
        write(&path, &batch, WriterProperties::builder().set_compression(compression).build());
        let sound = fs::read(&path).unwrap();
        let mut random = 0x9e37_79b9_7f4a_7c15u64 + form as u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        for _ in 0..MUTANTS / 3 {
            let mut bytes = sound.clone();
            for _ in 0..=next() % 4 {
                let at = next() % (bytes.len() - 8);
                bytes[at] = if next() % 2 == 0 { next() as u8 } else { bytes[at] ^ (1 << (next() % 8)) };
            }
            fs::write(&path, &bytes).unwrap();
            let start = std::time::Instant::now();
            if let Ok((store, catalog)) = open_one(&path) {
                for group in 0..catalog.groups.len() {
                    for name in ["n", "s", "l"] {
                        _ = part(&store, &catalog, &[name], group, None, 16 << 20);
                    }
                }
            }
            assert!(start.elapsed().as_secs() < 20);
        }
    }
}

#[test]
fn a_filter_finds_the_same_rows_with_and_without_statistics() {
    let folder = folder();
    let nulls = NullBuffer::from_iter((0..60).map(|i| i % 11 != 3));
    let ints: ArrayRef = Arc::new(Int64Array::new((0..60i64).collect::<Vec<_>>().into(), Some(nulls)));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..60).map(|i| match i {
        7 => f64::NAN,
        8 => -0.0,
        i => f64::from(i) / 2.0,
    })));
    let text: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..60).map(|i| format!("{:02}{}", i, "é".repeat(90)))));
    let big: ArrayRef = Arc::new(UInt64Array::from_iter_values((0..60).map(|i| u64::MAX - i)));
    let batch = RecordBatch::try_from_iter([("i", ints), ("f", floats), ("s", text), ("u", big)]).unwrap();
    for statistics in [EnabledStatistics::None, EnabledStatistics::Chunk] {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(10))
            .set_statistics_truncate_length(Some(8))
            .set_statistics_enabled(statistics)
            .build();
        write(&folder.path().join("a.parquet"), &batch, properties);
        let (store, catalog) = open_one(folder.path()).unwrap();
        let footer = wait(async { Footers::open(&store, &catalog).await?.read(0).await }).unwrap();
        let mut decided = 0;
        let ops = [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq];
        let values: [(&str, Value); 12] = [
            ("i", 25i64.into()),
            ("i", (-1i64).into()),
            ("i", 24.5.into()),
            ("i", 60i64.into()),
            ("f", 0.0.into()),
            ("f", 12i64.into()),
            ("f", 12.3.into()),
            ("s", "25".into()),
            ("s", "\u{10ffff}".into()),
            ("s", format!("25{}", "é".repeat(90)).as_str().into()),
            ("u", i64::MAX.into()),
            ("u", 1.8446744073709552e19.into()),
        ];
        let mut filters: Vec<Filter> = values
            .iter()
            .flat_map(|(column, value)| ops.map(|op| Filter::all_of([Term::new(*column, op, value.clone())])))
            .collect();
        for op in [Op::In, Op::NotIn] {
            filters.push(Filter::all_of([Term::new("i", op, vec![5i64, 25, 99])]));
            filters.push(Filter::all_of([Term::new("f", op, vec![5i64, 29])]));
            filters.push(Filter::all_of([Term::new("i", op, Value::List(Vec::new()))]));
        }
        filters.push(Filter::any_of([
            vec![Term::new("i", Op::Less, 12i64), Term::new("f", Op::Greater, 3i64)],
            vec![Term::new("i", Op::GreaterEq, 55i64)],
        ]));
        for filter in filters {
            filter.validate(&catalog).unwrap();
            let columns = filter.columns();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            for (index, group) in catalog.groups.iter().enumerate() {
                let rows = part(&store, &catalog, &columns, index, None, PLENTY).unwrap();
                let (selection, count) = filter.select(&rows).unwrap();
                assert_eq!(selection.row_count() as u64, count);
                match filter.prune(&catalog, index, Some(&footer)) {
                    RowGroupMatch::None => assert_eq!(count, 0, "{}", filter.canonical()),
                    RowGroupMatch::All => assert_eq!(count, group.rows, "{}", filter.canonical()),
                    RowGroupMatch::Some => continue,
                }
                decided += 1;
            }
        }
        assert_eq!(decided > 100, statistics == EnabledStatistics::Chunk, "{decided}");
    }
}

#[test]
fn a_filter_that_cannot_work_is_refused_and_a_filter_survives_json() {
    let folder = folder();
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    write(&folder.path().join("a.parquet"), &RecordBatch::try_from_iter([("label", ints)]).unwrap(), plain());
    let (_, catalog) = open_one(folder.path()).unwrap();
    let refusal = |column: &str, op, value: Value| {
        Filter::all_of([Term::new(column, op, value)]).validate(&catalog).unwrap_err()
    };
    assert_eq!(refusal("lable", Op::Eq, 1i64.into()).kind(), ErrorKind::UnknownColumn);
    assert_eq!(
        refusal("label", Op::Eq, "1".into()).to_string(),
        "column \"label\": the column has type int64, which a filter cannot compare with \"1\" \
         (filters compare booleans, numbers, texts, binary, dates and times)"
    );
    for (op, value) in [
        (Op::Eq, Value::List(Vec::new())),
        (Op::In, 1i64.into()),
        (Op::Less, f64::NAN.into()),
        (Op::In, Value::List(vec![Value::List(Vec::new())])),
        (Op::Eq, true.into()),
    ] {
        assert_eq!(refusal("label", op, value).kind(), ErrorKind::Invalid);
    }
    assert_eq!(Filter::any_of([]).validate(&catalog).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!("~".parse::<Op>().unwrap_err().kind(), ErrorKind::Invalid);
    let filter = Filter::any_of([vec![
        Term::new("a", "not in".parse().unwrap(), vec![1i64, 2]),
        Term::new("b", "==".parse().unwrap(), 1.0),
    ]]);
    let canonical = filter.canonical();
    assert_eq!(
        canonical,
        r#"{"any_of":[[{"column":"a","op":"not in","value":[1,2]},{"column":"b","op":"=","value":1.0}]]}"#
    );
    assert_eq!(serde_json::from_str::<Filter>(&canonical).unwrap(), filter);
}
