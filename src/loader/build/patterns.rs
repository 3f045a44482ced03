//! Names with wildcards in options by column: each entry becomes one of every column that its name matches.

use std::collections::{BTreeMap, HashSet};

use forebay_arrow::datatypes::Field;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::casts::cast_schema;
use super::columns::of_column;
use super::vectors::listed_schema;
use crate::batch::Fill;
use crate::column::{Follow, NullOptions, PadCodec, TextCodec};
use crate::loader::spec::LoaderSpec;

/// The columns that names and patterns may mean.
struct Names {
    /// Those that are read, as they are delivered.
    read: Vec<String>,
    /// All that there are: a name that exists is taken literally, whatever characters it has.
    all: HashSet<String>,
}

impl LoaderBuilder {
    /// The same with the names of columns where its options have patterns. The names decide before patterns do.
    pub(super) fn without_patterns(&self) -> Result<Self> {
        let mut builder = self.clone();
        let mut named = self.spec.by_column().into_iter().flat_map(|(_, columns)| columns);
        if !named.any(is_pattern) {
            return Ok(builder);
        }
        let delivered = self.projection()?;
        let read: Vec<String> =
            delivered.schema().fields().iter().map(|field| field.name().clone()).collect();
        let stored = self.dataset.catalog.schema.fields().iter().map(|field| field.name().clone());
        let names = Names { all: stored.chain(read.iter().cloned()).collect(), read };
        let LoaderSpec { cast, decode, follow, tensors, texts, encode, pad, .. } = &mut builder.spec;
        names.replace_in("cast", cast, &HashSet::new())?;
        // In Python they are one option.
        let named = decode.keys().chain(follow.keys()).chain(tensors.keys()).chain(texts.keys());
        let named: HashSet<String> = named.filter(|name| names.is_name(name)).cloned().collect();
        names.replace_in("decode", decode, &named)?;
        names.replace_in("decode", follow, &named)?;
        names.replace_in("decode", tensors, &named)?;
        names.replace_in("decode", texts, &named)?;
        names.replace_in("encode", encode, &HashSet::new())?;
        names.replace_in("pad", pad, &HashSet::new())?;
        let mut fill_null = std::mem::take(&mut builder.spec.fill_null);
        let listed = listed_schema(delivered.schema());
        let read = cast_schema(&listed, &builder.cast_columns(&listed)?)?;
        names.replace_where("fill_null", &mut fill_null, &HashSet::new(), |name, value| {
            read.field_with_name(name).is_ok_and(|field| builder.takes_fill(field, value))
        })?;
        builder.spec.fill_null = fill_null;
        Ok(builder)
    }

    /// Whether a value can stand for nulls of a column, as the other options have it delivered.
    fn takes_fill(&self, field: &Field, value: &Fill) -> bool {
        let (spec, name) = (&self.spec, field.name());
        let nulls = NullOptions { fill: Some(value), is_masked: false };
        if let Some(format) = spec.texts.get(name) {
            return TextCodec::new(*format, field, nulls).is_ok();
        }
        if let Some(tensor) = spec.tensors.get(name) {
            return tensor.codec(field, nulls).is_ok();
        }
        if let Some(encoding) = spec.encode.get(name) {
            return encoding.codec(field, Some(value)).is_ok();
        }
        if let Some(pad) = spec.pad.get(name) {
            return PadCodec::new(pad, field, Some(value)).is_ok();
        }
        let is_decoded = spec.decode.contains_key(name)
            || matches!(spec.follow.get(name), Some(Follow::Mask(_)))
            || self.decoders.iter().any(|(decoded, _)| decoded == name);
        if is_decoded {
            // The type of its numbers is checked where they are decoded.
            return value.number().is_some();
        }
        let is_followed = spec.follow.contains_key(name) || self.goes_along(name);
        !is_followed && value.check(field.data_type()).is_ok()
    }

    /// Whether `decode` makes images of a column, by its name or by a pattern.
    pub(super) fn decodes_images_of(&self, name: &str) -> bool {
        let decode = &self.spec.decode;
        decode.contains_key(name) || decode.keys().any(|key| is_pattern(key) && matches_name(key, name))
    }
}

impl Names {
    fn is_name(&self, name: &str) -> bool {
        self.all.contains(name) || !is_pattern(name)
    }

    /// Replaces the patterns among the keys of `option`; columns in `named` have an option of their own.
    fn replace_in<V: Clone + PartialEq>(
        &self,
        option: &str,
        values: &mut BTreeMap<String, V>,
        named: &HashSet<String>,
    ) -> Result<()> {
        self.replace_where(option, values, named, |_, _| true)
    }

    /// The same with the columns that a pattern can apply to.
    fn replace_where<V: Clone + PartialEq>(
        &self,
        option: &str,
        values: &mut BTreeMap<String, V>,
        named: &HashSet<String>,
        takes: impl Fn(&str, &V) -> bool,
    ) -> Result<()> {
        let (mut found, patterns): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(values).into_iter().partition(|(name, _)| self.is_name(name));
        let is_named = |column: &str| found.contains_key(column) || named.contains(column);
        let mut matched: BTreeMap<&str, (&str, &V)> = BTreeMap::new();
        for (pattern, value) in &patterns {
            let matching = self.read.iter().filter(|column| matches_name(pattern, column));
            let matching: Vec<&String> = matching.collect();
            if matching.is_empty() {
                let cause = format!("{option}: no column that is read matches {pattern:?}");
                return Err(Error::new(ErrorKind::UnknownColumn, cause)
                    .hint("`*` and `?` stand for any characters, `[0-9]` for one of several"));
            }
            let (fitting, others): (Vec<&String>, Vec<&String>) =
                matching.into_iter().partition(|column| takes(column, value));
            // Where it fits none, it is said why.
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
        *values = found;
        Ok(())
    }
}

/// Refuses a pattern in an option that takes names alone, where no column has it as its name.
pub(super) fn check_is_name(option: &str, name: &str, is_there: bool) -> Result<()> {
    if is_there || !is_pattern(name) {
        return Ok(());
    }
    let cause = format!("{option}: there is no column {name:?}, and it takes no patterns");
    Err(Error::new(ErrorKind::UnknownColumn, cause).hint(format!("name each column in `{option}`")))
}
