//! The options of a column as the loader sees them: what each of them answers, and how a spec writes those of all columns.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use forebay_arrow::datatypes::Field;
use forebay_base::Result;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serialize, Serializer};

use super::{Column, ColumnSpec, NullOptions};
use crate::batch::Fill;

/// What is said of columns, by their names.
type Columns = BTreeMap<String, ColumnSpec>;

/// What the value of one field of [`ColumnSpec`] says of its column.
pub(crate) trait ColumnOption {
    /// The keyword of Python that it is given with, where that is not the name of its `field`.
    fn keyword(field: &'static str) -> &'static str
    where
        Self: Sized,
    {
        field
    }

    /// Whether it says how the column is delivered. A column has one such option.
    fn delivers() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Whether values are made of the column as a whole, as images are of `struct<bytes, path>`.
    fn takes_whole() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether a spec has the option even where no column does.
    fn is_always_written() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The column as it is delivered; `None` where that takes more than the column itself.
    ///
    /// # Errors
    /// The column does not hold what the option says, or its nulls cannot be as `nulls` says.
    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        let _ = (stored, nulls);
        Ok(None)
    }

    /// Whether a value can stand for nulls of the column, as it is delivered.
    fn takes_fill(&self, stored: &Field, fill: &Fill) -> bool {
        self.column(stored, NullOptions { fill: Some(fill), is_masked: false }).is_ok()
    }
}

/// An option of a known type: one that is copied, compared, written and read.
pub(crate) trait TypedOption:
    ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static
{
}

impl<V> TypedOption for V where V: ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static {}

/// An option that is given for a column.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Its place among all options.
    pub(crate) place: usize,
    /// As [`ColumnOption::keyword`].
    pub(crate) keyword: &'static str,
    /// As [`ColumnOption::delivers`].
    pub(crate) delivers: bool,
    /// As [`ColumnOption::takes_whole`].
    pub(crate) takes_whole: bool,
    pub(crate) option: &'a dyn ColumnOption,
}

/// A field of [`ColumnSpec`].
#[derive(Clone, Copy)]
pub(crate) struct Setting<V> {
    pub(crate) field: &'static str,
    pub(crate) get: fn(&ColumnSpec) -> Option<&V>,
    pub(crate) get_mut: fn(&mut ColumnSpec) -> &mut Option<V>,
}

/// What is done for each option that a column may have.
pub(crate) trait EachOption {
    type Error;

    /// Does it for the option in this field.
    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), Self::Error>;
}

impl ColumnSpec {
    /// The options that are given.
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        let mut found = Finding { column: self, place: 0, given: Vec::new() };
        let Ok(()) = ColumnSpec::each(&mut found);
        found.given
    }

    /// Whether a value can stand for nulls of the column, as the option says that delivers it; `None` where none does.
    pub(crate) fn takes_fill(&self, stored: &Field, fill: &Fill) -> Option<bool> {
        let given = self.given();
        given.iter().find(|given| given.delivers).map(|given| given.option.takes_fill(stored, fill))
    }

    /// The keywords of the options that say how a column is delivered.
    pub(crate) fn delivering() -> Vec<&'static str> {
        let mut found = Delivering::default();
        let Ok(()) = ColumnSpec::each(&mut found);
        found.keywords
    }
}

struct Finding<'a> {
    column: &'a ColumnSpec,
    place: usize,
    given: Vec<Given<'a>>,
}

impl EachOption for Finding<'_> {
    type Error = std::convert::Infallible;

    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), Self::Error> {
        self.place += 1;
        let option = (setting.get)(self.column);
        self.given.extend(option.map(|option| Given {
            place: self.place,
            keyword: V::keyword(setting.field),
            delivers: V::delivers(),
            takes_whole: V::takes_whole(),
            option,
        }));
        Ok(())
    }
}

#[derive(Default)]
struct Delivering {
    keywords: Vec<&'static str>,
}

impl EachOption for Delivering {
    type Error = std::convert::Infallible;

    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), Self::Error> {
        let keyword = V::keyword(setting.field);
        if V::delivers() && !self.keywords.contains(&keyword) {
            self.keywords.push(keyword);
        }
        Ok(())
    }
}

/// Writes each option that columns have, with these columns.
pub(crate) fn serialize<S: Serializer>(columns: &Columns, serializer: S) -> Result<S::Ok, S::Error> {
    let mut written = Written { columns, to: serializer.serialize_map(None)? };
    ColumnSpec::each(&mut written)?;
    written.to.end()
}

/// Reads them; another name than that of an option is refused.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Columns, D::Error> {
    deserializer.deserialize_map(Options)
}

struct Written<'a, M> {
    columns: &'a Columns,
    to: M,
}

impl<M: SerializeMap> EachOption for Written<'_, M> {
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

/// One option that is read, once its field is found.
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

/// The values of one option by column, each of which is refused by the name of its column.
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

#[cfg(test)]
mod tests {
    use forebay_arrow::datatypes::DataType;
    use forebay_image::Image;

    use super::*;
    use crate::column::{Pad, TextFormat};

    #[test]
    fn the_options_of_a_column_are_given_in_their_order() {
        let mut column = ColumnSpec::default();
        assert!(column.given().is_empty());
        column.fill_null = Some(Fill::from("{}"));
        column.pad = Some(Pad::longest());
        column.texts = Some(TextFormat::Json);
        let given = column.given();
        let said: Vec<_> =
            given.iter().map(|given| (given.keyword, given.delivers, given.takes_whole)).collect();
        assert_eq!(said, [("decode", true, true), ("pad", true, false), ("fill_null", false, false)]);
        assert!(given.is_sorted_by_key(|given| given.place));
        assert_eq!(ColumnSpec::delivering(), ["decode", "encode", "pad"]);
    }

    #[test]
    fn the_option_that_delivers_a_column_says_which_fill_fits() {
        let text = Field::new("x", DataType::Utf8View, true);
        let takes = |column: &ColumnSpec, fill: Fill| column.takes_fill(&text, &fill);
        let mut column = ColumnSpec { cast: Some(DataType::Int8.into()), ..ColumnSpec::default() };
        assert_eq!(takes(&column, "{}".into()), None);
        column.texts = Some(TextFormat::Json);
        assert_eq!((takes(&column, "{}".into()), takes(&column, "{".into())), (Some(true), Some(false)));
        let column = ColumnSpec { decode: Some(Image::resize(8, 8)), ..ColumnSpec::default() };
        assert_eq!((takes(&column, "{}".into()), takes(&column, 0.0.into())), (Some(false), Some(true)));
    }
}
