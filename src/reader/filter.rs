//! Filters over columns: the lists of terms that pyarrow, Petastorm and Hugging Face use, or expressions.
//!
//! A filter is used twice: on the statistics of a row group, to leave out row groups that cannot match, and
//! on rows. Both must agree, so statistics decide only if no value, null or NaN could contradict them.
//!
//! | file | subject |
//! |---|---|
//! | `term`, `op` | a column, an operator, a value |
//! | `expr`, `arithmetic`, `sample` | conditions: how comparisons combine, numbers that are computed, shares of the rows |
//! | `check` | whether a filter makes sense for a data set |
//! | `truth` | three truth values: of rows, and those that are possible in a row group |
//! | `rows` | rows to be checked, and their places |
//! | `evaluate`, `times` | terms over rows; dates and times |
//! | `conditions` | conditions over rows |
//! | `verdicts` | columns of texts that are read as the results of their terms |
//! | `prune`, `index` | terms over statistics: of row groups, and of pages; Bloom filters |

mod arithmetic;
mod check;
mod conditions;
mod evaluate;
mod expr;
pub(super) mod index;
mod op;
mod prune;
mod rows;
mod sample;
mod term;
mod times;
mod truth;
mod verdicts;

use std::collections::BTreeSet;

use forebay_arrow::array::RecordBatch;
use forebay_arrow::buffer::BooleanBuffer;
use forebay_base::Result;
use forebay_store::catalog::{Catalog, File, Group, Projection, StoredGroup};
use forebay_store::row_set::RowSet;
use forebay_store::snapshot::Listed;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};

pub use expr::{Expr, row_fraction, row_fraction_by};
pub use op::Op;
pub(crate) use rows::Rows;
pub use term::Term;
pub(crate) use times::written;
pub use truth::RowGroupMatch;

use crate::operand::Value;
use index::{GroupIndex, IndexPart};
use prune::SeenGroup;
use term::Test;
use truth::Outcomes;
pub(crate) use verdicts::Verdicts;

/// A filter of the rows to read: those for which all terms of at least one of several lists hold, or for
/// which an [expression](crate::filter::Expr) is true.
///
/// A comparison with null is never true, not even for `!=` and `not in`. A comparison with NaN is true only
/// for `!=` and `not in`. pyarrow does the same, except that its `not in` is true for null. 16-bit and 32-bit
/// floats are compared as 64-bit floats, so no stored 32-bit float equals 0.1.
///
/// ```
/// use forebay::Filter;
/// use forebay::filter::{Op, Term};
///
/// let large = [Term::new("width", Op::GreaterEq, 224), Term::new("height", Op::GreaterEq, 224)];
/// let large = Filter::all_of(large);
/// let (train, good) = (Term::new("split", Op::Eq, "train"), Term::new("score", Op::Greater, 0.9));
/// let either = Filter::any_of([vec![train], vec![good]]);
/// assert_eq!(large.columns(), ["width", "height"]);
/// assert_eq!(either.columns(), ["split", "score"]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Filter(FilterForm);

/// The serialized form of a filter. Saved positions contain it, or a hash of it, to recognise the filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FilterForm {
    AnyOf(Vec<Vec<Term>>),
    Expr(Expr),
}

/// The rows of a row group that the statistics of its pages do not rule out, in two sets.
pub(crate) struct PrunedRows {
    /// Rows that are known to match.
    pub(crate) all: RowSet,
    /// Rows that have to be checked.
    pub(crate) some: RowSet,
}

impl PrunedRows {
    /// Gives all `rows` rows of a row group the same result.
    pub(crate) fn alike(matches: RowGroupMatch, rows: u32) -> Self {
        let (all, none) = (RowSet::all(rows), RowSet::none(rows));
        match matches {
            RowGroupMatch::None => PrunedRows { all: none.clone(), some: none },
            RowGroupMatch::All => PrunedRows { all, some: none },
            RowGroupMatch::Some => PrunedRows { all: none, some: all },
        }
    }
}

impl Filter {
    /// Creates a filter for rows for which all of the terms are true.
    pub fn all_of(terms: impl IntoIterator<Item = Term>) -> Self {
        Filter::any_of([terms.into_iter().collect()])
    }

    /// Creates a filter for rows for which all terms of at least one list are true.
    pub fn any_of(lists: impl IntoIterator<Item = Vec<Term>>) -> Self {
        Filter(FilterForm::AnyOf(lists.into_iter().collect()))
    }

    /// The columns that the filter compares, each once, in the order in which they are first named.
    pub fn columns(&self) -> Vec<String> {
        let mut named = Vec::new();
        match &self.0 {
            FilterForm::AnyOf(lists) => named.extend(lists.iter().flatten().map(|term| term.column.as_str())),
            FilterForm::Expr(Expr(node)) => node.columns(&mut named),
        }
        let mut names: Vec<String> = Vec::new();
        for name in named {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// A string that is the same for equal filters. Saved positions contain it, or a hash of it, to recognise
    /// the filter.
    pub fn canonical(&self) -> String {
        // Values are finite and keys are strings, so this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The bytes that the filter's values take, including copies of them while the rows are selected.
    pub(crate) fn bytes(&self) -> u64 {
        const COPIES: u64 = 3;
        let mut bytes = 0;
        self.terms(&mut |test| bytes += test.values().iter().map(Value::bytes).sum::<u64>());
        bytes.saturating_mul(COPIES)
    }

    /// Checks that the filter makes sense for a data set. Fails with `UnknownColumn`; or with `Invalid`, for
    /// instance if a list of terms is empty, if a value is NaN or infinite, or if a value does not fit its
    /// column or its operator.
    pub fn validate(&self, catalog: &Catalog) -> Result<()> {
        match &self.0 {
            FilterForm::AnyOf(lists) => check::lists(lists, catalog),
            FilterForm::Expr(Expr(node)) => check::node(node, catalog),
        }
    }

    /// Says whether all, some or no rows of a row group match, as far as the constant columns of its file and
    /// the statistics in `footer` show. `group` is an index into [`Catalog::groups`], `footer` must be the
    /// whole footer, and the filter must be valid for the catalogue.
    pub fn prune(&self, catalog: &Catalog, group: usize, footer: Option<&ParquetMetaData>) -> RowGroupMatch {
        let Some(group) = catalog.groups.get(group) else {
            return RowGroupMatch::Some;
        };
        let stored = catalog.stored(group).map(|stored| self.prune_stored(catalog, group, stored, footer));
        let joined = stored.reduce(|one, other| if one == other { one } else { RowGroupMatch::Some });
        joined.unwrap_or(RowGroupMatch::Some)
    }

    /// Like [`prune`](Self::prune), for one row group as the file stores it. (A row group of the catalogue
    /// may join several.)
    pub(crate) fn prune_stored(
        &self,
        catalog: &Catalog,
        group: &Group,
        stored: StoredGroup,
        footer: Option<&ParquetMetaData>,
    ) -> RowGroupMatch {
        self.decide(SeenGroup { catalog, group, stored, footer, index: None, row: None })
    }

    /// The rows of a stored row group that match, and those that may match, as far as statistics and `index`
    /// show; `None` if they show nothing. See [`prune`](Self::prune).
    pub(crate) fn prune_rows(
        &self,
        catalog: &Catalog,
        group: &Group,
        stored: StoredGroup,
        footer: &ParquetMetaData,
        index: &GroupIndex,
    ) -> Option<PrunedRows> {
        let rows = u32::try_from(stored.rows).ok()?;
        let seen = SeenGroup { catalog, group, stored, footer: Some(footer), index: Some(index), row: None };
        let starts = match self.decide(seen) {
            RowGroupMatch::Some if !index.has_pages() => return None,
            RowGroupMatch::Some => index.starts(),
            decided => return Some(PrunedRows::alike(decided, rows)),
        };
        let decided = starts.iter().map(|start| self.decide(SeenGroup { row: Some(*start), ..seen }));
        let decided: Vec<RowGroupMatch> = decided.collect();
        let ends = starts.iter().skip(1).copied().chain([rows]);
        let runs: Vec<_> = starts.iter().zip(ends).map(|(start, end)| *start..end).collect();
        let of = |wanted: RowGroupMatch| {
            let wanted = runs.iter().zip(&decided).filter(move |(_, decided)| **decided == wanted);
            RowSet::from_runs(rows, wanted.map(|(run, _)| run.clone()))
        };
        Some(PrunedRows { all: of(RowGroupMatch::All), some: of(RowGroupMatch::Some) })
    }

    /// The parts of a row group's page indexes and Bloom filters that may show whether its rows match.
    /// `footer` is the whole footer of its file.
    pub(crate) fn index_parts(
        &self,
        catalog: &Catalog,
        file: &File,
        index: usize,
        footer: &ParquetMetaData,
    ) -> Vec<IndexPart> {
        index::parts(&self.columns(), &self.equalities(), catalog, file, index, footer)
    }

    fn decide(&self, stored: SeenGroup<'_>) -> RowGroupMatch {
        let constants = &stored.catalog.files[stored.group.file].constants;
        self.outcomes(&prune::Seen { constants, stored: Some(stored), listed: None }).rows()
    }

    /// The columns of texts and binary values in a projection that can be read as the results of this
    /// filter's comparisons, instead of as values.
    pub(crate) fn verdicts(&self, projection: &Projection) -> Verdicts {
        let mut uses = verdicts::Uses::default();
        match &self.0 {
            FilterForm::AnyOf(lists) => lists.iter().flatten().for_each(|term| uses.test(term.test())),
            FilterForm::Expr(Expr(node)) => conditions::uses(node, &mut uses),
        }
        uses.verdicts(projection)
    }

    /// Calls `each` for every comparison of a column with a value.
    fn terms<'a>(&'a self, each: &mut dyn FnMut(Test<'a>)) {
        match &self.0 {
            FilterForm::AnyOf(lists) => lists.iter().flatten().for_each(|term| each(term.test())),
            FilterForm::Expr(Expr(node)) => node.terms(each),
        }
    }

    /// The columns that are tested with `=`, `!=`, `in` or `not in`.
    fn equalities(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.terms(&mut |term| {
            if matches!(term.op, Op::Eq | Op::NotEq | Op::In | Op::NotIn) {
                names.insert(term.column);
            }
        });
        names
    }

    /// Whether rows of a file may match, as far as the file's constant columns and the statistics in the file
    /// list of its table show. The footer of the file is not needed.
    pub(crate) fn keeps(&self, Listed { constants, statistics }: &Listed<'_>) -> bool {
        self.outcomes(&prune::Seen { constants, stored: None, listed: *statistics }).yes
    }

    fn outcomes(&self, seen: &prune::Seen<'_>) -> Outcomes {
        let lists = match &self.0 {
            FilterForm::AnyOf(lists) => lists,
            FilterForm::Expr(Expr(node)) => return seen.node(node),
        };
        let all = |terms: &Vec<Term>| {
            terms.iter().map(|term| seen.term(term.test())).fold(Outcomes::YES, |all, one| all & one)
        };
        lists.iter().map(all).fold(Outcomes::NO, |any, one| any | one)
    }

    /// Says for each row of a batch, which must have the filter's columns, whether it matches. For
    /// [`row_fraction`], the rows count as the first rows of a file whose path is empty.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        self.matching(&Rows { batch, file: "", first: 0, live: None, verdicts: None })
    }

    /// Says for each row whether it matches.
    pub(crate) fn matching(&self, rows: &Rows<'_>) -> Result<BooleanBuffer> {
        let lists = match &self.0 {
            FilterForm::AnyOf(lists) => lists,
            FilterForm::Expr(Expr(node)) => return Ok(conditions::node(rows, node)?.yes),
        };
        let mut any = BooleanBuffer::new_unset(rows.len());
        for terms in lists {
            let mut all = BooleanBuffer::new_set(rows.len());
            for term in terms {
                all = &all & &rows.test(term.test())?.yes;
            }
            any = &any | &all;
        }
        Ok(any)
    }

    /// The rows of a batch that match, as a selection for [`read_part`](super::rows::read_part), and their
    /// number.
    pub fn select(&self, batch: &RecordBatch) -> Result<(RowSelection, u64)> {
        let matching = self.evaluate(batch)?;
        let rows = matching.set_slices().map(|(from, to)| from..to);
        let selection = RowSelection::from_consecutive_ranges(rows, batch.num_rows());
        Ok((selection, matching.count_set_bits() as u64))
    }
}

impl From<Expr> for Filter {
    fn from(expr: Expr) -> Self {
        Filter(FilterForm::Expr(expr))
    }
}
