//! Filters over all small row groups that a few values can form. The selected rows are compared with an
//! oracle in this file, and the decisions by statistics are compared with the rows.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forebay::ErrorKind;
use forebay::Filter;
use forebay::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    UInt64Array,
};
use forebay::arrow::datatypes::Int32Type;
use forebay::filter::{Op, Term, Value, col};
use forebay::rows::RowGroupMatch;
use forebay::rows::read_part;
use forebay_store::catalog::Catalog;
use forebay_store::source::{Footers, Store, open};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

const OPS: [Op; 6] = [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq];

/// The number of rows in a row group.
const ROWS: usize = 3;

/// The number of values in a long list, which is sorted and searched instead of compared one by one.
const LONG_LIST: usize = 12;

const PLENTY: u64 = 1 << 30;

/// A stored value as the oracle sees it.
#[derive(Clone, Debug, PartialEq)]
enum OracleCell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'static str),
}

/// Whether a term holds, by its definition alone.
fn holds(cell: &OracleCell, op: Op, value: &Value) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    if *cell == OracleCell::Null {
        return false;
    }
    let order = |value: &Value| match (cell, value) {
        (OracleCell::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (OracleCell::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (OracleCell::Int(a), Value::Float(b)) => exactly(*a, *b),
        (OracleCell::Float(a), Value::Int(b)) => exactly(*b, *a).map(std::cmp::Ordering::reverse),
        (OracleCell::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (OracleCell::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        other => panic!("{other:?}"),
    };
    let values = match value {
        Value::List(values) => values.clone(),
        one => vec![one.clone()],
    };
    let equal = values.iter().any(|value| order(value) == Some(Equal));
    match op {
        Op::Eq | Op::In => equal,
        Op::NotEq | Op::NotIn => !equal,
        Op::Less => order(value) == Some(Less),
        Op::LessEq => matches!(order(value), Some(Less | Equal)),
        Op::Greater => order(value) == Some(Greater),
        Op::GreaterEq => matches!(order(value), Some(Greater | Equal)),
    }
}

/// Compares an integer with a float: first as floats, and if these are equal by what the integer lost in
/// rounding.
fn exactly(whole: i64, float: f64) -> Option<std::cmp::Ordering> {
    let rounded = whole as f64;
    let order = rounded.partial_cmp(&float)?;
    Some(order.then_with(|| i128::from(whole).cmp(&(rounded as i128))))
}

/// Every possible row group of `ROWS` values of `alphabet`.
fn groups(alphabet: &[OracleCell]) -> Vec<Vec<OracleCell>> {
    (0..ROWS).fold(vec![Vec::new()], |groups, _| {
        let longer = |group: &Vec<OracleCell>| {
            let group = group.clone();
            alphabet.iter().map(move |cell| [&group[..], std::slice::from_ref(cell)].concat())
        };
        groups.iter().flat_map(longer).collect()
    })
}

fn write(path: &Path, batch: &RecordBatch) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROWS))
        .set_statistics_truncate_length(Some(2))
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

pub(crate) fn opened(path: &Path) -> (Store, Catalog) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(open(&[path.to_str().unwrap().to_owned()], &BTreeMap::new())).unwrap()
}

pub(crate) fn rows(store: &Store, catalog: &Catalog, group: usize) -> RecordBatch {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let projection = catalog.project_all().unwrap();
    let ranges = catalog.byte_ranges(&catalog.groups[group], &projection).unwrap();
    let bytes = runtime.block_on(store.read_ranges(&catalog.files[0], &ranges)).unwrap();
    read_part(catalog, &projection, group, None, ranges.into_iter().zip(bytes).collect(), PLENTY).unwrap()
}

/// Applies filters to a file with the given columns. `want` says whether a filter, given by its index, holds
/// for a row. Returns how often the statistics alone decided about a row group.
fn compare(batch: &RecordBatch, filters: &[Filter], want: impl Fn(usize, usize) -> bool) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, batch);
    let (store, catalog) = opened(&path);
    assert_eq!(catalog.groups.len(), batch.num_rows() / ROWS);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let footer = runtime.block_on(async { Footers::open(&store, &catalog).await?.read(0).await }).unwrap();
    let mut decided = 0;
    for group in 0..catalog.groups.len() {
        let rows = rows(&store, &catalog, group);
        for (index, filter) in filters.iter().enumerate() {
            let got: Vec<bool> = filter.evaluate(&rows).unwrap().iter().collect();
            let expected: Vec<bool> = (0..ROWS).map(|row| want(index, group * ROWS + row)).collect();
            assert_eq!(got, expected, "{} over {rows:?}", filter.canonical());
            let verdict = filter.prune(&catalog, group, Some(&footer));
            match verdict {
                RowGroupMatch::None => assert!(!got.contains(&true), "{} over {rows:?}", filter.canonical()),
                RowGroupMatch::All => assert!(!got.contains(&false), "{} over {rows:?}", filter.canonical()),
                RowGroupMatch::Some => continue,
            }
            decided += 1;
        }
    }
    decided
}

/// All terms over a column `c`: comparisons with each value, and lists of no, one, two and many values.
fn terms(values: &[Value]) -> Vec<Term> {
    let mut terms = Vec::new();
    for value in values {
        terms.extend(OPS.map(|op| Term::new("c", op, value.clone())));
    }
    for op in [Op::In, Op::NotIn] {
        let mut list = |values: Vec<Value>| terms.push(Term::new("c", op, Value::List(values)));
        list(Vec::new());
        for (at, value) in values.iter().enumerate() {
            list(vec![value.clone()]);
            list(vec![value.clone(), values[(at + 1) % values.len()].clone()]);
        }
        for some in [values, &values[..values.len().div_ceil(2)]] {
            list(some.iter().cycle().take(LONG_LIST).cloned().collect());
        }
    }
    terms
}

fn each_alone(terms: &[Term]) -> Vec<Filter> {
    terms.iter().map(|term| Filter::all_of([term.clone()])).collect()
}

#[test]
fn nulls_and_nan_hold_in_no_comparison_that_they_should_not() {
    let ints = [OracleCell::Null, OracleCell::Int(0), OracleCell::Int(1), OracleCell::Int(3)];
    let floats = [
        OracleCell::Null,
        OracleCell::Float(f64::NAN),
        OracleCell::Float(-0.0),
        OracleCell::Float(0.0),
        OracleCell::Float(1.5),
    ];
    let texts = [
        OracleCell::Null,
        OracleCell::Text(""),
        OracleCell::Text("a"),
        OracleCell::Text("abc"),
        OracleCell::Text("é"),
    ];
    let bools = [OracleCell::Null, OracleCell::Bool(false), OracleCell::Bool(true)];
    let numbers: Vec<Value> = vec![
        (-1i64).into(),
        0i64.into(),
        1i64.into(),
        3i64.into(),
        4i64.into(),
        0.5.into(),
        1.5.into(),
        (-0.0).into(),
    ];
    let words: Vec<Value> = ["", "a", "ab", "abc", "b", "é", "\u{10ffff}"].map(Value::from).into();
    let both: Vec<Value> = vec![false.into(), true.into()];
    for (alphabet, values) in
        [(&ints[..], &numbers), (&floats[..], &numbers), (&texts[..], &words), (&bools[..], &both)]
    {
        let cells = groups(alphabet).concat();
        let arrays: Vec<ArrayRef> = match &alphabet[1] {
            OracleCell::Int(_) => {
                let of =
                    |cell: &OracleCell| if let OracleCell::Int(value) = cell { Some(*value) } else { None };
                vec![Arc::new(Int64Array::from_iter(cells.iter().map(of)))]
            }
            OracleCell::Float(_) => {
                let of =
                    |cell: &OracleCell| if let OracleCell::Float(value) = cell { Some(*value) } else { None };
                vec![
                    Arc::new(Float64Array::from_iter(cells.iter().map(of))),
                    Arc::new(Float32Array::from_iter(
                        cells.iter().map(|cell| of(cell).map(|value| value as f32)),
                    )),
                ]
            }
            OracleCell::Text(_) => {
                let of =
                    |cell: &OracleCell| if let OracleCell::Text(value) = cell { Some(*value) } else { None };
                vec![Arc::new(StringArray::from_iter(cells.iter().map(of)))]
            }
            OracleCell::Bool(_) => {
                let of =
                    |cell: &OracleCell| if let OracleCell::Bool(value) = cell { Some(*value) } else { None };
                vec![Arc::new(BooleanArray::from_iter(cells.iter().map(of)))]
            }
            OracleCell::Null => unreachable!(),
        };
        for array in arrays {
            let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
            let terms = terms(values);
            let all = batch.num_rows() / ROWS * terms.len();
            let want = |term: usize, row: usize| holds(&cells[row], terms[term].op, &terms[term].value);
            let decided = compare(&batch, &each_alone(&terms), want);
            assert!(decided * 10 > all, "statistics decided {decided} of {all}");
            // A null is in no list, so it is among the values that are not in it.
            let lists = terms.iter().filter_map(|term| match &term.value {
                Value::List(values) if term.op == Op::In && !values.is_empty() => Some(values.clone()),
                _ => None,
            });
            let lists: Vec<Vec<Value>> = lists.collect();
            let others = lists.iter().map(|values| Filter::from(!col("c").in_list(values.clone())));
            let others: Vec<Filter> = others.collect();
            compare(&batch, &others, |list, row| {
                !holds(&cells[row], Op::In, &Value::List(lists[list].clone()))
            });
        }
    }
}

/// Combines two terms over two columns in every way: both hold, or either holds.
#[test]
fn lists_of_terms_are_combined_as_their_rows_are() {
    let ints = groups(&[OracleCell::Null, OracleCell::Int(0), OracleCell::Int(2)]).concat();
    let floats: Vec<OracleCell> = ints
        .iter()
        .enumerate()
        .map(|(row, _)| match row % 5 {
            0 => OracleCell::Float(f64::NAN),
            at => OracleCell::Float(at as f64),
        })
        .collect();
    let a = ints.iter().map(|cell| if let OracleCell::Int(value) = cell { Some(*value) } else { None });
    let b = floats.iter().map(|cell| if let OracleCell::Float(value) = cell { *value } else { 0.0 });
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from_iter(a)) as ArrayRef, true),
        ("b", Arc::new(Float64Array::from_iter_values(b)) as ArrayRef, false),
    ])
    .unwrap();
    let single: Vec<Term> = OPS
        .into_iter()
        .flat_map(|op| [Term::new("a", op, 0i64), Term::new("a", op, 1i64), Term::new("b", op, 2.0)])
        .collect();
    let of = |term: &Term, row: usize| {
        let cell = if term.column == "a" { &ints[row] } else { &floats[row] };
        holds(cell, term.op, &term.value)
    };
    let pairs: Vec<[Term; 2]> =
        single.iter().flat_map(|first| single.iter().map(|second| [first.clone(), second.clone()])).collect();
    let both: Vec<Filter> = pairs.iter().map(|pair| Filter::all_of(pair.clone())).collect();
    compare(&batch, &both, |pair, row| pairs[pair].iter().all(|term| of(term, row)));
    let either: Vec<Filter> =
        pairs.iter().map(|pair| Filter::any_of(pair.clone().map(|term| vec![term]))).collect();
    compare(&batch, &either, |pair, row| pairs[pair].iter().any(|term| of(term, row)));
}

#[test]
fn numbers_without_a_sign_are_compared_beyond_the_signed_ones() {
    let most = u64::MAX;
    let cells: Vec<u64> = vec![0, 1, 2, 1 << 63, (1 << 63) + 1, most, 5, most, 5];
    let batch =
        RecordBatch::try_from_iter([("c", Arc::new(UInt64Array::from(cells.clone())) as ArrayRef)]).unwrap();
    let values: Vec<Value> = vec![0i64.into(), 2i64.into(), i64::MAX.into(), 9.3e18.into(), (-1i64).into()];
    let terms: Vec<Term> =
        values.iter().flat_map(|value| OPS.map(|op| Term::new("c", op, value.clone()))).collect();
    compare(&batch, &each_alone(&terms), |term, row| {
        let term = &terms[term];
        let order = match &term.value {
            Value::Int(value) => i128::from(cells[row]).cmp(&i128::from(*value)),
            Value::Float(value) => (cells[row] as f64).partial_cmp(value).unwrap(),
            other => panic!("{other:?}"),
        };
        match term.op {
            Op::Eq => order.is_eq(),
            Op::NotEq => order.is_ne(),
            Op::Less => order.is_lt(),
            Op::LessEq => order.is_le(),
            Op::Greater => order.is_gt(),
            Op::GreaterEq => order.is_ge(),
            Op::In | Op::NotIn => unreachable!(),
        }
    });
}

/// The column is also refused with an empty list of values, which has no value of the wrong type.
#[test]
fn a_column_that_filters_do_not_compare_is_refused_whatever_it_is_compared_with() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), None]);
    let times = forebay::arrow::array::Time64MicrosecondArray::from(vec![1, 2]);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("l", Arc::new(lists) as ArrayRef, true),
        ("t", Arc::new(times) as ArrayRef, true),
    ])
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &batch);
    let (_, catalog) = opened(&path);
    let nothing = Value::List(Vec::new());
    for column in ["l", "t"] {
        for (op, value) in [(Op::In, nothing.clone()), (Op::NotIn, nothing.clone()), (Op::Eq, 1i64.into())] {
            let error = Filter::all_of([Term::new(column, op, value)]).validate(&catalog).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("which a filter cannot compare"), "{error}");
        }
    }
}
