//! Reads the class or the weight of each row from a column.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;

use forebay_arrow::array::{Array, ArrayRef, AsArray};
use forebay_arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Sample, Weights};

/// A class of rows: a value of a column of whole numbers, booleans or texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Class {
    /// A whole number, or 0 and 1 for a boolean.
    Number(i64),
    /// A text.
    Text(String),
}

impl From<i64> for Class {
    fn from(number: i64) -> Self {
        Class::Number(number)
    }
}

impl From<i32> for Class {
    fn from(number: i32) -> Self {
        Class::Number(number.into())
    }
}

impl From<bool> for Class {
    fn from(value: bool) -> Self {
        Class::Number(value.into())
    }
}

impl From<&str> for Class {
    fn from(text: &str) -> Self {
        Class::Text(text.to_owned())
    }
}

impl From<String> for Class {
    fn from(text: String) -> Self {
        Class::Text(text)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Number(number) => write!(f, "{number}"),
            Class::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// An error about a column, with the ordinal of the row if it is about one row.
type Refused = (Option<usize>, Error);

/// An error about a column, with the row group and the row if it is about one row.
pub(crate) type RefusedRow = (Option<(usize, u32)>, Error);

/// The values of one row group: its classes, and for each row the index of its class. If the values are
/// weights, there are no classes, and each row has the bits of its weight.
type GroupValues = (Vec<Class>, Vec<u32>);

/// The classes or the weights of all rows, by row group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnValues {
    /// All classes in ascending order; empty if the values are weights.
    pub(crate) classes: Vec<Class>,
    /// For each row, the index of its class in `classes`, or the bits of its weight as a 32-bit float.
    pub(crate) numbers: Vec<Vec<u32>>,
}

impl Sample {
    /// Reads the classes or the weights of one row group.
    pub(crate) fn read(&self, column: &ArrayRef) -> Result<GroupValues, Refused> {
        match self.has_classes() {
            true => classes(column),
            false => weights(column).map(|weights| (Vec::new(), weights)),
        }
    }
}

impl ColumnValues {
    /// Whether every number is the index of a class, if there are classes. If not, the values were damaged on
    /// the disk where they were kept.
    pub(crate) fn is_whole(&self) -> bool {
        let has_class = |number: &u32| (*number as usize) < self.classes.len();
        self.classes.is_empty() || self.numbers.iter().flatten().all(has_class)
    }

    /// Joins the values of all row groups, with one numbering of the classes.
    pub(crate) fn of_groups(groups: Vec<GroupValues>) -> Self {
        let mut places: BTreeMap<Class, u32> =
            groups.iter().flat_map(|(classes, _)| classes).map(|class| (class.clone(), 0)).collect();
        places.values_mut().zip(0..).for_each(|(place, number)| *place = number);
        let of_group = |(classes, mut numbers): GroupValues| {
            let known: Vec<u32> = classes.iter().map(|class| places[class]).collect();
            if !known.is_empty() {
                numbers.iter_mut().for_each(|number| *number = known[*number as usize]);
            }
            numbers
        };
        let numbers = groups.into_iter().map(of_group).collect();
        ColumnValues { classes: places.into_keys().collect(), numbers }
    }

    /// Returns the weight of each class in the order of `classes`, and the classes that have a weight and no
    /// rows.
    ///
    /// # Errors
    /// Fails if a class has no weight. The error comes with a row of that class.
    pub(super) fn weights(&self, sample: &Sample) -> Result<(Vec<f64>, Vec<Class>), RefusedRow> {
        let Weights::Classes { weights, others } = &sample.weights else {
            return Ok((vec![1.0; self.classes.len()], Vec::new()));
        };
        let of: HashMap<&Class, f64> = weights.iter().map(|(class, weight)| (class, *weight)).collect();
        let found: Vec<Option<f64>> =
            self.classes.iter().map(|class| of.get(class).copied().or(*others)).collect();
        if let Some(missing) = found.iter().position(Option::is_none) {
            let has_it = |numbers: &Vec<u32>| numbers.iter().position(|number| *number as usize == missing);
            let mut rows = self.numbers.iter().enumerate();
            let (group, row) =
                rows.find_map(|(group, numbers)| Some((group, has_it(numbers)?))).unwrap_or_default();
            let error = Error::invalid(format!("is {}, a class without a weight", self.classes[missing]))
                .hint("give it one, 0 to leave its rows out, or give one to all other classes");
            return Err((Some((group, row as u32)), error));
        }
        let unused = weights.iter().map(|(class, _)| class);
        let unused = unused.filter(|class| self.classes.binary_search(class).is_err()).cloned().collect();
        Ok((found.into_iter().flatten().collect(), unused))
    }
}

/// Makes each distinct value a class, and numbers the classes in the order in which they are found. Returns
/// the classes, and for each row the number of its class.
fn numbered<V: Eq + Hash + Copy>(
    values: impl Iterator<Item = Option<V>>,
    class: impl Fn(V) -> Result<Class>,
) -> Result<GroupValues, Refused> {
    let (mut known, mut classes, mut numbers) = (HashMap::new(), Vec::new(), Vec::new());
    for (row, value) in values.enumerate() {
        let value = value.ok_or_else(|| {
            let error = Error::invalid("is null, but the class of a row decides how often the row is drawn");
            (Some(row), error.hint("leave such rows out with a filter"))
        })?;
        let number = match known.get(&value) {
            Some(number) => *number,
            None => {
                classes.push(class(value).map_err(|error| (Some(row), error))?);
                *known.entry(value).or_insert(classes.len() as u32 - 1)
            }
        };
        numbers.push(number);
    }
    Ok((classes, numbers))
}

/// The classes in a column, and the index of each row's class among them.
fn classes(column: &ArrayRef) -> Result<GroupValues, Refused> {
    macro_rules! whole {
        ($type:ty) => {
            numbered(column.as_primitive::<$type>().iter(), |value| Ok(Class::Number(value.into())))
        };
    }
    match column.data_type() {
        DataType::Boolean => numbered(column.as_boolean().iter(), |value| Ok(value.into())),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => numbered(column.as_primitive::<UInt64Type>().iter(), |value| {
            let number = i64::try_from(value);
            number.map(Class::Number).map_err(|_| {
                Error::invalid(format!("is {value}, above the largest class"))
                    .hint("classes are from -2^63 to 2^63 - 1")
            })
        }),
        DataType::Utf8View => numbered(column.as_string_view().iter(), |text| Ok(text.into())),
        other => {
            let error = Error::invalid(format!("holds {}, which cannot name classes", TypeName(other)))
                .hint("name a column of whole numbers, booleans or texts");
            Err((None, error))
        }
    }
}

/// The weight of each row, as the bits of a 32-bit float.
fn weights(column: &ArrayRef) -> Result<Vec<u32>, Refused> {
    macro_rules! as_float {
        ($type:ty) => {
            bits(column.as_primitive::<$type>().iter().map(|it| it.map(f64::from)))
        };
    }
    macro_rules! as_whole {
        ($type:ty) => {
            bits(column.as_primitive::<$type>().iter().map(|it| it.map(|it| it as f64)))
        };
    }
    match column.data_type() {
        DataType::Float16 => as_float!(Float16Type),
        DataType::Float32 => as_float!(Float32Type),
        DataType::Float64 => as_float!(Float64Type),
        DataType::Int8 => as_whole!(Int8Type),
        DataType::Int16 => as_whole!(Int16Type),
        DataType::Int32 => as_whole!(Int32Type),
        DataType::Int64 => as_whole!(Int64Type),
        DataType::UInt8 => as_whole!(UInt8Type),
        DataType::UInt16 => as_whole!(UInt16Type),
        DataType::UInt32 => as_whole!(UInt32Type),
        DataType::UInt64 => as_whole!(UInt64Type),
        other => {
            let error = Error::invalid(format!("holds {}, which cannot be weights", TypeName(other)))
                .hint("name a column of numbers, or say by which classes to sample");
            Err((None, error))
        }
    }
}

fn bits(values: impl ExactSizeIterator<Item = Option<f64>>) -> Result<Vec<u32>, Refused> {
    let mut bits = Vec::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let refused = |cause: String| {
            let hint = "weights are numbers from 0 to 3.4e38; leave other rows out with a filter";
            (Some(row), Error::invalid(cause).hint(hint))
        };
        let value = value.ok_or_else(|| refused("is null, which is not a weight".to_owned()))?;
        let weight = value as f32;
        if !(weight.is_finite() && value >= 0.0) {
            return Err(refused(format!("is {value}, which is not a weight")));
        }
        // A weight over 0 must not become 0 when it becomes a 32-bit float.
        let weight = if value > 0.0 { weight.max(f32::MIN_POSITIVE) } else { 0.0 };
        bits.push(weight.to_bits());
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{
        BooleanArray, Float64Array, Int8Array, Int64Array, StringViewArray, UInt64Array,
    };

    use super::*;

    #[test]
    fn classes_of_all_row_groups_are_numbered_in_ascending_order() {
        let groups: [ArrayRef; 3] = [
            Arc::new(Int64Array::from(vec![7, -1, 7])),
            Arc::new(Int64Array::from(Vec::<i64>::new())),
            Arc::new(Int8Array::from(vec![3, 7])),
        ];
        let read = groups.iter().map(|column| Sample::balanced("x").read(column).unwrap());
        let values = ColumnValues::of_groups(read.collect());
        assert_eq!(values.classes, [-1, 3, 7].map(Class::from));
        assert_eq!(values.numbers, [vec![2, 0, 2], vec![], vec![1, 2]]);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "a", "b"]));
        assert_eq!(classes(&texts).unwrap(), (vec!["b".into(), "a".into()], vec![0, 1, 0]));
        let booleans: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
        assert_eq!(classes(&booleans).unwrap().0, [1, 0].map(Class::from));
    }

    #[test]
    fn a_class_without_a_weight_is_named_with_a_row_of_it() {
        let values =
            ColumnValues { classes: [1, 2].map(Class::from).into(), numbers: vec![vec![0], vec![0, 1]] };
        let sample = Sample::classes("x", [(1, 0.5), (9, 1.0)]);
        let (row, error) = values.weights(&sample).unwrap_err();
        assert_eq!(row, Some((1, 1)));
        assert!(error.to_string().contains("is 2, a class without a weight"), "{error}");
        let (weights, unused) = values.weights(&sample.others(3.0)).unwrap();
        assert_eq!((weights, unused), (vec![0.5, 3.0], vec![Class::from(9)]));
    }

    #[test]
    fn what_is_no_weight_or_class_is_refused() {
        let of = |values: Vec<Option<f64>>| {
            let column: ArrayRef = Arc::new(Float64Array::from(values));
            weights(&column)
        };
        for bad in [None, Some(-1.0), Some(f64::NAN), Some(f64::INFINITY), Some(1e300)] {
            assert_eq!(of(vec![Some(1.0), bad]).unwrap_err().0, Some(1), "{bad:?}");
        }
        let kept = of(vec![Some(1e-300), Some(0.0), Some(-0.0)]).unwrap();
        assert_eq!(kept, [f32::MIN_POSITIVE.to_bits(), 0, 0]);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["1"]));
        assert_eq!(weights(&texts).unwrap_err().0, None);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        assert_eq!(classes(&floats).unwrap_err().0, None);
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
        assert_eq!(classes(&large).unwrap_err().0, Some(1));
        let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(classes(&null).unwrap_err().0, Some(1));
    }
}
