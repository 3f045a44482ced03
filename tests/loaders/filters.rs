//! Filters and the rows that they select, described twice: to forebay and to the test.

use forebay::Filter;
use forebay::filter::{Op, Term, Value};

use crate::chance::Chance;
use crate::table::TableOnDisk;

/// A comparison of a column with one or several numbers or texts.
#[derive(Clone, Debug)]
pub(crate) struct Compare {
    column: &'static str,
    op: Op,
    with: Vec<With>,
}

#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum With {
    Number(f64),
    Text(String),
}

const OPS: [Op; 8] = [Op::Eq, Op::NotEq, Op::Less, Op::LessEq, Op::Greater, Op::GreaterEq, Op::In, Op::NotIn];

impl Compare {
    pub(crate) fn draw(chance: &mut Chance, rows: u64) -> Compare {
        let column = chance.pick(&["id", "id", "small", "real", "word"]);
        let op = chance.pick(&OPS);
        let values = if matches!(op, Op::In | Op::NotIn) { chance.between(1, 4) } else { 1 };
        let mut value = || match column {
            "id" => With::Number(chance.below(rows + 1) as f64),
            "small" => With::Number(chance.below(40) as f64 - 20.0),
            "real" => With::Number(chance.below(64) as f64 / 4.0 - 8.0),
            _ => With::Text("abcdefghijklmnopqrst"[..chance.below(20) as usize].to_owned()),
        };
        let with = (0..values).map(|_| value()).collect();
        Compare { column, op, with }
    }

    fn term(&self) -> Term {
        let value = |with: &With| match with {
            With::Text(text) => Value::Text(text.clone()),
            With::Number(number) if self.column == "real" => Value::Float(*number),
            With::Number(number) => Value::Int(*number as i64),
        };
        match self.op {
            Op::In | Op::NotIn => {
                Term::new(self.column, self.op, Value::List(self.with.iter().map(value).collect()))
            }
            _ => Term::new(self.column, self.op, value(&self.with[0])),
        }
    }

    /// A null satisfies no comparison; NaN satisfies only `!=` and `not in`.
    fn holds(&self, table: &TableOnDisk, id: u64) -> bool {
        let value = match self.column {
            "id" => Some(With::Number(id as f64)),
            "small" => table.small(id).map(|value| With::Number(f64::from(value))),
            "real" => table.real(id).map(With::Number),
            _ => table.word(id).map(With::Text),
        };
        let Some(value) = value else { return false };
        let with = &self.with[0];
        match self.op {
            Op::Eq => value == *with,
            Op::NotEq => value != *with,
            Op::Less => value < *with,
            Op::LessEq => value <= *with,
            Op::Greater => value > *with,
            Op::GreaterEq => value >= *with,
            Op::In => self.with.contains(&value),
            Op::NotIn => !self.with.contains(&value),
        }
    }
}

/// Returns a filter that selects a row if all comparisons of any one list are true; `None` without lists.
pub(crate) fn filter(any_of: &[Vec<Compare>]) -> Option<Filter> {
    let lists = any_of.iter().map(|all| all.iter().map(Compare::term).collect());
    (!any_of.is_empty()).then(|| Filter::any_of(lists))
}

/// The rows that the filter selects.
pub(crate) fn selected(any_of: &[Vec<Compare>], table: &TableOnDisk) -> Vec<u64> {
    let is_selected = |id: &u64| {
        any_of.is_empty() || any_of.iter().any(|all| all.iter().all(|compare| compare.holds(table, *id)))
    };
    (0..table.layout.rows()).filter(|id| !table.is_deleted(*id)).filter(is_selected).collect()
}
