//! Rows that are left out of every epoch: by their numbers, or by the values of a column.

use std::collections::BTreeMap;

use forebay_arrow::datatypes::DataType;
use forebay_base::Result;
use forebay_store::catalog::{Catalog, RowId};
use forebay_store::row_set::RowSet;
use forebay_store::source::is_pattern;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::operand::{Value, col};
use crate::reader::Filter;

/// Rows that are left out of every epoch, as if they were not stored: by their [numbers](RowId), or by the
/// values of a column. The default denies no row.
///
/// ```
/// use forebay::{Deny, RowId};
///
/// let urls = Deny::values("url", ["https://a.example/1.jpg"]);
/// let deny = Deny::rows([RowId::new(81), RowId::new(17)]).and(urls);
/// assert!(!deny.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deny {
    /// The row ids in ascending order, without duplicates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<RowId>,
    /// The denied values of each column.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, Vec<Value>>,
}

impl Deny {
    /// Denies the rows with these ids, in any order. A warning says how many of the ids belong to no row of
    /// the data set.
    pub fn rows(ids: impl IntoIterator<Item = RowId>) -> Self {
        Deny { rows: ids.into_iter().collect(), ..Deny::default() }.settled()
    }

    /// Denies the rows that have one of these values in a column. A row with a null in the column is not
    /// denied.
    pub fn values<V: Into<Value>>(column: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        Deny { values: BTreeMap::from([(column.into(), values)]), ..Deny::default() }
    }

    /// Denies the rows that either list denies.
    #[must_use]
    pub fn and(mut self, other: Deny) -> Self {
        self.rows.extend(other.rows);
        for (column, values) in other.values {
            self.values.entry(column).or_default().extend(values);
        }
        self.settled()
    }

    /// Whether nothing is denied.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.values.values().all(Vec::is_empty)
    }

    /// The bytes that the list takes while a loader selects its rows: several copies of the values, and the
    /// filter that is made from them.
    pub(super) fn bytes(&self) -> u64 {
        const COPIES: u64 = 10;
        const COPIES_OF_ROWS: u64 = 3;
        let rows = self.rows.len() as u64 * size_of::<RowId>() as u64;
        let values: u64 = self.values.values().flatten().map(Value::bytes).sum();
        values.saturating_mul(COPIES).saturating_add(rows * COPIES_OF_ROWS)
    }

    /// Whether rows are denied by the values of columns.
    pub(super) fn has_values(&self) -> bool {
        self.values.values().any(|values| !values.is_empty())
    }

    /// The ids of the denied rows, ascending.
    pub fn row_ids(&self) -> &[RowId] {
        &self.rows
    }

    fn settled(mut self) -> Self {
        self.rows.sort_unstable();
        self.rows.dedup();
        self
    }

    /// A filter that selects the rows whose values are not denied; `None` if the list has no values.
    fn filter(&self) -> Option<Filter> {
        let given = self.values.iter().filter(|(_, values)| !values.is_empty());
        // A null equals no value of the list, so its row is not denied.
        let kept = given.map(|(column, values)| !col(column.as_str()).in_list(values.iter().cloned()));
        kept.reduce(|all, one| all & one).map(Filter::from)
    }

    /// Removes the rows with denied ids from the selected rows of each row group. Also returns how many of
    /// the ids belong to no row.
    pub(super) fn without_rows(&self, catalog: &Catalog, mut selected: Vec<RowSet>) -> (Vec<RowSet>, u64) {
        let (denied, unknown) = sets_of(catalog, &self.rows);
        for (group, denied) in denied {
            selected[group] = selected[group].intersection(&denied.complement());
        }
        (selected, unknown)
    }

    /// A hash of the list, which a saved position stores. The order in which rows and values were given does
    /// not matter.
    pub(super) fn digest(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut hashed = String::new();
        for id in &self.rows {
            hashed += &format!("{id}\n");
        }
        for (column, values) in &self.values {
            let mut values: Vec<String> =
                values.iter().map(|value| serde_json::to_string(value).unwrap_or_default()).collect();
            values.sort_unstable();
            values.dedup();
            hashed += &format!("{column:?}\n{}\n", values.join("\n"));
        }
        Some(format!("{:032x}", xxh3_128(hashed.as_bytes())))
    }

    /// Converts the values of the list to the types of a data set's columns: text that reads as a number or
    /// boolean becomes one if the column has that type.
    ///
    /// # Errors
    /// A column does not exist.
    pub(super) fn typed(mut self, catalog: &Catalog) -> Result<Self> {
        for (column, values) in &mut self.values {
            let found = catalog.column(column).map_err(|error| error.about("deny"));
            let column = match is_pattern(column) {
                true => found.map_err(|error| error.hint("`deny` takes no patterns: name each column"))?,
                false => found?,
            };
            let data_type = catalog.schema.field(column).data_type();
            for value in values {
                if let Value::Text(text) = value
                    && let Some(typed) = value_of(text.trim(), data_type)
                {
                    *value = typed;
                }
            }
        }
        Ok(self)
    }

    /// Makes the filter and the hash of the list, and checks the filter against the data set.
    ///
    /// # Errors
    /// A column cannot have such values.
    pub(super) fn checked(&self, catalog: &Catalog) -> Result<Denied> {
        let filter = self.filter();
        let valid = filter.as_ref().map_or(Ok(()), |filter| filter.validate(catalog));
        valid.map_err(|error| error.about("deny"))?;
        Ok(Denied { filter, digest: self.digest() })
    }
}

/// The filter and the hash of a list of denied rows. They are computed once, because the list may be long.
pub(super) struct Denied {
    /// A filter that selects the rows whose values are not denied; `None` if no value is denied.
    pub(super) filter: Option<Filter>,
    /// A hash of the list, which a saved position stores; `None` for an empty list.
    pub(super) digest: Option<String>,
}

/// Reads a text as a value of this type; `None` if it is not one, or if the type is not a number or boolean.
fn value_of(text: &str, data_type: &DataType) -> Option<Value> {
    match data_type {
        DataType::Boolean => text.to_ascii_lowercase().parse::<bool>().ok().map(Value::from),
        _ if data_type.is_integer() || data_type.is_floating() => {
            let whole =
                text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
            let float = || text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from);
            whole.ok().or_else(float)
        }
        _ => None,
    }
}

/// The rows with these ids, by row group, and how many of the ids belong to no row.
pub(super) fn sets_of(catalog: &Catalog, ids: &[RowId]) -> (BTreeMap<usize, RowSet>, u64) {
    let mut found: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let mut unknown = 0;
    for &id in ids {
        let mut rows = catalog.find_rows(id).peekable();
        unknown += u64::from(rows.peek().is_none());
        rows.for_each(|(group, row)| found.entry(group).or_default().push(row as u32));
    }
    let set = |(group, mut rows): (usize, Vec<u32>)| {
        rows.sort_unstable();
        rows.dedup();
        let all = catalog.groups[group].rows as u32;
        (group, RowSet::from_runs(all, rows.into_iter().map(|row| row..row + 1)))
    };
    (found.into_iter().map(set).collect(), unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_the_same_in_whatever_order_it_was_given() {
        let ids = |numbers: &[i64]| Deny::rows(numbers.iter().copied().map(RowId::new));
        let one = ids(&[3, 1]).and(Deny::values("url", ["b", "a"]));
        let other = Deny::values("url", ["a", "b", "a"]).and(ids(&[1])).and(ids(&[3, 3]));
        assert_eq!(one.digest(), other.digest());
        assert_ne!(one.digest(), ids(&[1, 3]).digest());
        assert_ne!(Deny::values("a", ["b"]).digest(), Deny::values("b", ["a"]).digest());
        assert_eq!(ids(&[]).and(Deny::values("url", Vec::<String>::new())).digest(), None);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Deny>(&text).unwrap(), one);
    }
}
