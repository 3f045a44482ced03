//! Replaces patterns in options by column: an option that is given for a pattern is given for each column
//! that the pattern matches.

use std::collections::{BTreeMap, HashMap, HashSet};

use forebay_arrow::datatypes::Field;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::catalog::Projection;
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::casts::cast_schema;
use super::places::of_column;
use crate::batch::Fill;
use crate::column::{ColumnSpec, EachOption, Follow, NullOptions, Setting, TypedOption};

/// The option whose patterns are replaced last: the other options decide which columns have nulls that a
/// value can replace.
const FILL_NULL: &str = "fill_null";

/// The column names that an option may refer to, by name or by pattern.
struct Names {
    /// The delivered names of the columns that are read, which patterns match.
    read: Vec<String>,
    /// The stored and delivered names of all columns. A name among these is not a pattern, even if it has a
    /// `*`.
    all: HashSet<String>,
}

/// Replaces the patterns in each option except [`FILL_NULL`].
struct Replacing<'a> {
    names: &'a Names,
    /// For the keyword of each option, the columns for which it is given by name.
    named: HashMap<&'static str, HashSet<String>>,
    columns: &'a mut BTreeMap<String, ColumnSpec>,
}

impl EachOption for Replacing<'_> {
    type Error = Error;

    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<()> {
        if setting.field == FILL_NULL {
            return Ok(());
        }
        let keyword = V::keyword(setting.field);
        let named = self.named.get(keyword).cloned().unwrap_or_default();
        self.names.replace(keyword, self.columns, setting.get_mut, &named, |_, _| true)
    }
}

impl LoaderBuilder {
    /// Returns this builder with the names of columns in place of patterns, except in `fill_null`. An option
    /// that is given for a name takes precedence over one that is given for a pattern.
    pub(super) fn without_patterns(&self) -> Result<Self> {
        let mut builder = self.clone();
        if !self.has_patterns() {
            return Ok(builder);
        }
        let names = self.names(&self.projection()?);
        let mut named: HashMap<_, HashSet<String>> = HashMap::new();
        for (name, given) in self.spec.options_of_columns() {
            if names.is_name(name) {
                named.entry(given.keyword).or_default().insert(name.to_owned());
            }
        }
        let mut replacing = Replacing { names: &names, named, columns: &mut builder.spec.by_column };
        ColumnSpec::each(&mut replacing)?;
        Ok(builder)
    }

    /// Returns this builder with the names of columns in place of the patterns in `fill_null`. This is done
    /// last, because all other options decide which columns take a value for nulls.
    pub(super) fn with_fills(mut self) -> Result<Self> {
        if !self.has_patterns() {
            return Ok(self);
        }
        let delivered = self.projection()?;
        let names = self.names(&delivered);
        let listed = self.with_lists(delivered.schema())?;
        let read = cast_schema(&listed, &self.cast_columns(&listed)?)?;
        let mut columns = self.spec.by_column.clone();
        let followers: Vec<&Follow> = self.followers().map(|(_, follow)| follow).collect();
        let takes = |name: &str, value: &Fill| {
            read.field_with_name(name).is_ok_and(|field| self.takes_fill(field, value, &followers))
        };
        names.replace(FILL_NULL, &mut columns, |column| &mut column.fill_null, &HashSet::new(), takes)?;
        columns.retain(|_, column| *column != ColumnSpec::default());
        self.spec.by_column = columns;
        Ok(self)
    }

    /// Whether an option by column is given for a pattern, or for a name that looks like one.
    fn has_patterns(&self) -> bool {
        self.spec.by_column.keys().any(|name| is_pattern(name))
    }

    /// Collects the names that are in the data set or are delivered.
    fn names(&self, delivered: &Projection) -> Names {
        let read: Vec<String> =
            delivered.schema().fields().iter().map(|field| field.name().clone()).collect();
        let stored = self.dataset.catalog.schema.fields().iter().map(|field| field.name().clone());
        Names { all: stored.chain(read.iter().cloned()).collect(), read }
    }

    /// Whether a value can replace the nulls of a column in the form in which the other options deliver it.
    /// `followers` are the options of columns that follow an image.
    fn takes_fill(&self, field: &Field, value: &Fill, followers: &[&Follow]) -> bool {
        let name = field.name();
        let by_option = self.spec.by_column.get(name).and_then(|column| column.takes_fill(field, value));
        if let Some(takes) = by_option {
            return takes;
        }
        if let Some(decoding) = self.decodings.get(name) {
            let nulls = NullOptions { fill: Some(value), is_masked: false };
            match decoding.column(field, nulls) {
                Ok(None) => {}
                made => return made.is_ok(),
            }
        }
        if self.decoders.iter().any(|(decoded, _)| decoded == name) {
            // The decoder's codec checks later whether the number fits its type.
            return value.number().is_some();
        }
        !followers.iter().any(|follow| follow.takes_along(name)) && value.check(field.data_type()).is_ok()
    }

    /// Whether `decode` is given for images in a column, by its name or by a pattern that matches it.
    pub(super) fn decodes_images_of(&self, name: &str) -> bool {
        let images = self.images().map(|(key, _)| key).chain(self.all_views().map(|(key, _)| key));
        images
            .chain(self.clips().map(|(key, _)| key))
            .any(|key| key == name || is_pattern(key) && matches_name(key, name))
    }
}

impl Names {
    fn is_name(&self, name: &str) -> bool {
        self.all.contains(name) || !is_pattern(name)
    }

    /// Replaces the patterns in one option, whose field in a [`ColumnSpec`] is `place`. Columns in `named`
    /// are skipped, because the option is given for them by name. A pattern matches only columns for which
    /// `takes` is true.
    fn replace<V: Clone + PartialEq>(
        &self,
        option: &str,
        columns: &mut BTreeMap<String, ColumnSpec>,
        place: fn(&mut ColumnSpec) -> &mut Option<V>,
        named: &HashSet<String>,
        takes: impl Fn(&str, &V) -> bool,
    ) -> Result<()> {
        let given = columns.iter_mut();
        let given = given.filter_map(|(name, column)| Some((name.clone(), place(column).take()?)));
        let (mut found, patterns): (BTreeMap<_, _>, BTreeMap<_, _>) =
            given.partition(|(name, _)| self.is_name(name));
        let is_named = |column: &str| found.contains_key(column) || named.contains(column);
        let mut matched: BTreeMap<&str, (&str, &V)> = BTreeMap::new();
        for (pattern, value) in &patterns {
            let matching = self.read.iter().filter(|column| matches_name(pattern, column));
            let matching: Vec<&String> = matching.collect();
            if matching.is_empty() {
                return Err(no_match(option, pattern));
            }
            let (fitting, others): (Vec<&String>, Vec<&String>) =
                matching.into_iter().partition(|column| takes(column, value));
            // If none of the matching columns takes the option, it is given to all of them, so that a later
            // check can say why they do not take it.
            let meant = if fitting.is_empty() { others } else { fitting };
            for column in meant.into_iter().filter(|column| !is_named(column)) {
                let before = matched.insert(column, (pattern, value));
                if let Some((other, _)) = before.filter(|(_, other)| *other != value) {
                    let cause = format!("{option}: both {other:?} and {pattern:?} match it, and they differ");
                    let hint = format!("name the column in `{option}`");
                    return Err(Error::invalid(cause).hint(hint).at(of_column(column)));
                }
            }
        }
        let matched = matched.into_iter().map(|(column, (_, value))| (column.to_owned(), value.clone()));
        found.extend(matched);
        for (name, value) in found {
            *place(columns.entry(name).or_default()) = Some(value);
        }
        Ok(())
    }
}

/// The places of listed columns among the columns `among`, in the order of the list. A name that is among
/// them is not a pattern, even if it has a `*`. The columns that a pattern matches come in the order of
/// `among`, each once, and without those that are listed by name. `unknown` makes the error for a name that
/// is not among them.
pub(super) fn places_of(
    option: &str,
    listed: &[String],
    among: &[String],
    unknown: impl Fn(&str) -> Error,
) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(listed.len());
    for name in listed {
        if let Some(place) = among.iter().position(|column| column == name) {
            places.push(place);
            continue;
        }
        if !is_pattern(name) {
            return Err(unknown(name));
        }
        let matching = among.iter().enumerate().filter(|(_, column)| matches_name(name, column));
        let mut matching = matching.peekable();
        if matching.peek().is_none() {
            return Err(no_match(option, name));
        }
        for (place, _) in matching.filter(|(_, column)| !listed.contains(column)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    Ok(places)
}

/// The error for a pattern in an option that matches no column.
pub(super) fn no_match(option: &str, pattern: &str) -> Error {
    let cause = format!("{option}: no column that is read matches {pattern:?}");
    Error::new(ErrorKind::UnknownColumn, cause)
        .hint("`*` and `?` stand for any characters, `[0-9]` for one of several")
}

/// Refuses a pattern in an option that takes only names. A column name that looks like a pattern is allowed.
pub(super) fn check_is_name(option: &str, name: &str, is_there: bool) -> Result<()> {
    if is_there || !is_pattern(name) {
        return Ok(());
    }
    let cause = format!("{option}: there is no column {name:?}, and it takes no patterns");
    Err(Error::new(ErrorKind::UnknownColumn, cause).hint(format!("name each column in `{option}`")))
}
