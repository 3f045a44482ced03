//! Finds the options that are set for a column, and the one among them that determines how the column is
//! delivered.

use forebay_arrow::datatypes::Field;
use forebay_base::Result;

use super::option::TypedOption;
use super::{ColumnOption, ColumnSpec, EachOption, Setting};
use crate::batch::Fill;

impl ColumnSpec {
    /// Returns the options that are set for the column.
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        let mut found = Finding { column: self, place: 0, given: Vec::new() };
        let Ok(()) = ColumnSpec::each(&mut found);
        found.given
    }

    /// Whether the option that delivers the column accepts this value in place of nulls; `None` if no option
    /// delivers the column.
    pub(crate) fn takes_fill(&self, stored: &Field, fill: &Fill) -> Option<bool> {
        let given = self.given();
        given.iter().find(|given| given.delivers).map(|given| given.option.takes_fill(stored, fill))
    }

    /// The Python keywords of all options that determine how a column is delivered, each of them once.
    pub(crate) fn delivering() -> Vec<&'static str> {
        let mut found = Delivering::default();
        let Ok(()) = ColumnSpec::each(&mut found);
        found.keywords
    }
}

/// An option that is set for a column.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// The position of the option in the order of [`ColumnSpec::each`], counted from 1.
    pub(crate) place: usize,
    /// The result of [`ColumnOption::keyword`].
    pub(crate) keyword: &'static str,
    /// The result of [`ColumnOption::delivers`].
    pub(crate) delivers: bool,
    /// The result of [`ColumnOption::takes_whole`].
    pub(crate) takes_whole: bool,
    pub(crate) option: &'a dyn ColumnOption,
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
