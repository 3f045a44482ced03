//! Filters over columns with dictionaries select the rows that the same filters select from plain values.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::fs::File;
use std::sync::Arc;

use forebay::arrow::array::{
    ArrayRef, AsArray, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::{Expr, Op, Operand, Term, Value, col};
use forebay::{Dataset, Filter};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use super::filters::{opened, rows};

/// Texts that are prefixes of others, and a text that is too long to be stored within a view.
const TEXTS: [&str; 6] = ["", "a", "ab", "abc", "b", "a text of more than twelve bytes"];

/// How a file is written. When a dictionary is full, plain pages follow.
#[derive(Clone, Debug)]
struct FileForm {
    has_dictionary: bool,
    dictionary_bytes: usize,
    page_rows: usize,
    group_rows: usize,
    is_compressed: bool,
}

type Cell = (Option<u8>, Option<u8>, Option<f64>);

fn written() -> impl Strategy<Value = FileForm> {
    let some =
        (any::<bool>(), prop::sample::select(vec![8, 40, 4096]), 1usize..20, 5usize..60, any::<bool>());
    some.prop_map(|(has_dictionary, dictionary_bytes, page_rows, group_rows, is_compressed)| FileForm {
        has_dictionary,
        dictionary_bytes,
        page_rows,
        group_rows,
        is_compressed,
    })
}

fn cells() -> impl Strategy<Value = Vec<Cell>> {
    let text = || prop::option::weighted(0.8, 0..TEXTS.len() as u8);
    let number = prop::option::weighted(0.8, prop::sample::select(vec![f64::NAN, 0.0, -0.0, 1.5]));
    prop::collection::vec((text(), text(), number), 1..120)
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select([&TEXTS[..], &["absent", "aa"]].concat()).prop_map(str::to_owned)
}

fn column() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["text", "binary"])
}

fn expr() -> impl Strategy<Value = Expr> {
    let compared = (column(), 0usize..6, text()).prop_map(|(column, op, text)| {
        let ops = [Operand::eq, Operand::not_eq, Operand::lt, Operand::lt_eq, Operand::gt, Operand::gt_eq];
        ops[op](col(column), text)
    });
    let listed =
        (column(), prop::collection::vec(text(), 0..12)).prop_map(|(column, list)| col(column).in_list(list));
    let begun = (column(), text()).prop_map(|(column, text)| col(column).starts_with(text));
    let null = column().prop_map(|column| col(column).is_null());
    let number = prop::sample::select(vec![0.0, 1.5, 7.0]).prop_map(|number| col("number").not_eq(number));
    let leaf = prop_oneof![4 => compared, 4 => listed, 2 => begun, 1 => null, 1 => number];
    leaf.prop_recursive(3, 12, 2, |part| {
        prop_oneof![
            (part.clone(), part.clone()).prop_map(|(one, other)| one & other),
            (part.clone(), part.clone()).prop_map(|(one, other)| one | other),
            part.prop_map(|part| !part),
        ]
    })
}

/// An expression, or lists of terms. A null matches neither `In` nor `NotIn` in a term.
fn filter() -> impl Strategy<Value = Filter> {
    let value = (prop::sample::select(Op::ALL.to_vec()), prop::collection::vec(text(), 1..12));
    let term = (column(), value).prop_map(|(column, (op, texts))| match op {
        Op::In | Op::NotIn => {
            Term::new(column, op, Value::List(texts.into_iter().map(Value::Text).collect()))
        }
        op => Term::new(column, op, texts[0].clone()),
    });
    let lists = prop::collection::vec(prop::collection::vec(term, 1..3), 1..3);
    prop_oneof![expr().prop_map(Filter::from), lists.prop_map(Filter::any_of)]
}

fn batch(cells: &[Cell]) -> RecordBatch {
    let text = |cell: Option<u8>| cell.map(|at| TEXTS[usize::from(at)]);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..cells.len() as i64));
    let texts: ArrayRef = Arc::new(cells.iter().map(|cell| text(cell.0)).collect::<StringArray>());
    let binary: ArrayRef =
        Arc::new(cells.iter().map(|cell| text(cell.1).map(str::as_bytes)).collect::<BinaryArray>());
    let numbers: ArrayRef = Arc::new(cells.iter().map(|cell| cell.2).collect::<Float64Array>());
    let columns =
        [("id", ids, false), ("text", texts, true), ("binary", binary, true), ("number", numbers, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn dictionaries_do_not_change_which_rows_a_filter_selects(
        cells in cells(),
        written in written(),
        filter in filter(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(written.has_dictionary)
            .set_dictionary_page_size_limit(written.dictionary_bytes)
            .set_data_page_row_count_limit(written.page_rows)
            .set_write_batch_size(written.page_rows)
            .set_max_row_group_row_count(Some(written.group_rows))
            .set_compression(if written.is_compressed { Compression::SNAPPY } else { Compression::UNCOMPRESSED })
            .build();
        let batch = batch(&cells);
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();

        let (store, catalog) = opened(&path);
        let mut expected: Vec<i64> = Vec::new();
        for group in 0..catalog.groups.len() {
            let plain = rows(&store, &catalog, group);
            let ids = plain["id"].as_primitive::<Int64Type>().values();
            let selected = filter.evaluate(&plain).unwrap();
            expected.extend(ids.iter().zip(&selected).filter(|(_, selected)| *selected).map(|(id, _)| *id));
        }
        let dataset = Dataset::open(folder.path().to_str().unwrap()).unwrap();
        let loader = dataset.loader().columns(["id"]).filter(filter.clone()).build();
        let found: Vec<i64> = match loader {
            Ok(loader) => loader
                .epoch(0)
                .flat_map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().values().to_vec())
                .collect(),
            Err(error) => {
                prop_assert_eq!(error.cause(), "no row is selected");
                Vec::new()
            }
        };
        prop_assert_eq!(found, expected, "{} over {:?}", filter.canonical(), cells);
    }
}
