//! Replaces patterns in the options that give columns their names and their places: `flatten`, `rename`, and
//! the offsets of windows.

use std::collections::BTreeMap;

use forebay_base::{Error, Result};
use forebay_store::catalog::fields_of;
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::patterns::{no_match, places_of};
use super::places::of_column;
use crate::loader::spec::Flatten;
use crate::samples::Samples;

/// The wildcard of a pattern in `rename`.
const ANY: char = '*';

impl LoaderBuilder {
    /// Replaces the patterns in `flatten` and `rename` by names, and chooses the columns to read for samples.
    pub(super) fn name_columns_of_patterns(&mut self) -> Result<()> {
        self.flatten_by_name()?;
        let renamed = self.rename_by_name()?;
        let are_listed = self.spec.columns.is_some();
        self.columns_of_samples()?;
        if let (false, Some(read)) = (are_listed, &self.spec.columns) {
            // Samples read only their own columns, so a pattern renames only these.
            let is_read = |name: &String| read.iter().any(|one| one == name || matches_name(one, name));
            self.spec.rename.retain(|name, _| !renamed.contains(name) || is_read(name));
        }
        Ok(())
    }

    /// Replaces the patterns in `flatten`. A pattern matches only columns of structures.
    fn flatten_by_name(&mut self) -> Result<()> {
        let Flatten::Columns(listed) = &self.spec.flatten else { return Ok(()) };
        let fields = self.dataset.catalog.schema.fields();
        let is_name = |name: &String| fields.iter().any(|field| field.name() == name);
        if listed.iter().all(|name| is_name(name) || !is_pattern(name)) {
            return Ok(());
        }
        let can_be = fields.iter().filter(|field| fields_of(field.data_type()).is_some());
        let among: Vec<String> = can_be.map(|field| field.name().clone()).collect();
        let mut names = Vec::with_capacity(listed.len());
        for name in listed {
            if is_name(name) || !is_pattern(name) {
                names.push(name.clone());
                continue;
            }
            let places = places_of("flatten", std::slice::from_ref(name), &among, |name| self.unknown(name))
                .map_err(|error| error.hint_also("a pattern matches columns of structures only"))?;
            names.extend(
                places.into_iter().map(|place| among[place].clone()).filter(|name| !listed.contains(name)),
            );
        }
        let mut seen = Vec::with_capacity(names.len());
        names.retain(|name| {
            let is_new = !seen.contains(name);
            seen.push(name.clone());
            is_new
        });
        self.spec.flatten = Flatten::Columns(names);
        Ok(())
    }

    /// Replaces the patterns in `rename`, and returns the stored names that were found by patterns. A column
    /// that is renamed by its name is not renamed by a pattern.
    fn rename_by_name(&mut self) -> Result<Vec<String>> {
        if !self.spec.rename.keys().any(|name| is_pattern(name)) {
            return Ok(Vec::new());
        }
        let given = std::mem::take(&mut self.spec.rename);
        let projection = self.projection()?;
        let read: Vec<String> =
            projection.selected().iter().map(|selected| self.unrenamed(selected)).collect();
        let is_name = |name: &String| read.contains(name) || !is_pattern(name);
        let (mut names, patterns): (BTreeMap<_, _>, BTreeMap<_, _>) =
            given.into_iter().partition(|(name, _)| is_name(name));
        let mut found: BTreeMap<&String, (&String, String)> = BTreeMap::new();
        for (pattern, new) in &patterns {
            let (before, after) = around(pattern, "a pattern in `rename`")?;
            let (first, last) = around(new, "the new name for a pattern in `rename`")?;
            let matching: Vec<&String> = read.iter().filter(|name| matches_name(pattern, name)).collect();
            if matching.is_empty() {
                return Err(no_match("rename", pattern));
            }
            for name in matching.into_iter().filter(|name| !names.contains_key(*name)) {
                let kept = &name[before.len()..name.len() - after.len()];
                let renamed = format!("{first}{kept}{last}");
                if let Some((other, another)) = found.insert(name, (pattern, renamed.clone()))
                    && another != renamed
                {
                    let cause = format!("rename: both {other:?} and {pattern:?} match it, and they differ");
                    return Err(Error::invalid(cause)
                        .hint("name the column in `rename`")
                        .at(of_column(name)));
                }
            }
        }
        let found: Vec<(String, String)> =
            found.into_iter().map(|(name, (_, renamed))| (name.clone(), renamed)).collect();
        let by_pattern = found.iter().map(|(name, _)| name.clone()).collect();
        names.extend(found);
        self.spec.rename = names;
        Ok(by_pattern)
    }

    /// Returns this builder with the names of columns in place of patterns in the offsets of windows.
    pub(super) fn with_offsets(mut self) -> Result<Self> {
        let Samples::Windows(window) = &self.spec.samples else { return Ok(self) };
        if !window.columns().into_iter().any(is_pattern) {
            return Ok(self);
        }
        let projection = self.projection()?;
        let mut among = Vec::new();
        for field in projection.schema().fields() {
            if self.is_stacked(field.name()) {
                continue;
            }
            among.push(field.name().clone());
            for (_, views) in self.all_views().filter(|(name, _)| name == field.name()) {
                among.extend(views.iter().map(|view| view.column(field.name())));
            }
        }
        among.extend(self.spec.stack.keys().cloned());
        let named = window.with_fields(|listed| {
            // A name that is not read has its own error later.
            let (patterns, names): (Vec<String>, Vec<String>) =
                listed.iter().cloned().partition(|name| is_pattern(name) && !among.contains(name));
            let places = places_of("an offset of the window", &patterns, &among, |name| self.unknown(name))?;
            let matched = places.into_iter().map(|place| among[place].clone());
            let matched: Vec<String> = matched.filter(|name| !names.contains(name)).collect();
            Ok([names, matched].concat())
        })?;
        self.spec.samples = named.into();
        Ok(self)
    }
}

/// The text before and after the only wildcard of a pattern. `what` names the pattern in an error.
fn around<'p>(pattern: &'p str, what: &str) -> Result<(&'p str, &'p str)> {
    let parts = pattern.split_once(ANY).filter(|(before, after)| !is_pattern(before) && !is_pattern(after));
    parts.ok_or_else(|| {
        Error::invalid(format!("{what} must have one `*` and no other wildcard, got {pattern:?}"))
            .hint("the `*` of the new name stands for what the `*` of the pattern matches: `I*` to `int_*`")
    })
}
