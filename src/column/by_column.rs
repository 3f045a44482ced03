//! Serializes the options of all columns by option: each option is written once, with its value for each
//! column.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use forebay_base::Result;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serializer};

use super::option::TypedOption;
use super::{ColumnSpec, EachOption, Setting};

/// The options of columns, by the names of the columns.
type Columns = BTreeMap<String, ColumnSpec>;

/// Writes each option that at least one column has, as a map from the names of these columns to their values.
pub(crate) fn serialize<S: Serializer>(columns: &Columns, serializer: S) -> Result<S::Ok, S::Error> {
    let mut written = WrittenOption { columns, to: serializer.serialize_map(None)? };
    ColumnSpec::each(&mut written)?;
    written.to.end()
}

/// Reads the options of columns, and refuses a field that is not an option.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Columns, D::Error> {
    deserializer.deserialize_map(Options)
}

struct WrittenOption<'a, M> {
    columns: &'a Columns,
    to: M,
}

impl<M: SerializeMap> EachOption for WrittenOption<'_, M> {
    type Error = M::Error;

    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), M::Error> {
        let given = self.columns.iter().filter_map(|(name, column)| Some((name, (setting.get)(column)?)));
        let given: BTreeMap<&String, &V> = given.collect();
        match given.is_empty() && !V::is_always_written() {
            true => Ok(()),
            false => self.to.serialize_entry(setting.field, &given),
        }
    }
}

struct Options;

impl<'de> Visitor<'de> for Options {
    type Value = Columns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("options by column")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Columns, A::Error> {
        let mut columns = Columns::new();
        while let Some(field) = from.next_key::<String>()? {
            let mut read = Read {
                field: &field,
                from: &mut from,
                columns: &mut columns,
                is_known: false,
                de: PhantomData,
            };
            ColumnSpec::each(&mut read)?;
            if !read.is_known {
                return Err(A::Error::custom(format!("unknown field `{field}`")));
            }
        }
        Ok(columns)
    }
}

/// Finds the option with the name `field`, and reads its values for all columns.
struct Read<'a, 'de, A> {
    field: &'a str,
    from: &'a mut A,
    columns: &'a mut Columns,
    is_known: bool,
    de: PhantomData<&'de ()>,
}

impl<'de, A: MapAccess<'de>> EachOption for Read<'_, 'de, A> {
    type Error = A::Error;

    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), A::Error> {
        if setting.field != self.field {
            return Ok(());
        }
        self.is_known = true;
        for (name, value) in self.from.next_value_seed(Values::<V>::new(setting.field))? {
            *(setting.get_mut)(self.columns.entry(name).or_default()) = Some(value);
        }
        Ok(())
    }
}

/// Reads the values of one option, by column. Each error names its column.
struct Values<V> {
    field: &'static str,
    value: PhantomData<V>,
}

impl<V> Values<V> {
    fn new(field: &'static str) -> Self {
        Values { field, value: PhantomData }
    }
}

impl<'de, V: DeserializeOwned> DeserializeSeed<'de> for Values<V> {
    type Value = Vec<(String, V)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, V: DeserializeOwned> Visitor<'de> for Values<V> {
    type Value = Vec<(String, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of `{}` for each column", self.field)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(name) = from.next_key::<String>()? {
            match from.next_value() {
                Ok(value) => values.push((name, value)),
                Err(error) => return Err(A::Error::custom(format!("{}[{name:?}]: {error}", self.field))),
            }
        }
        Ok(values)
    }
}
