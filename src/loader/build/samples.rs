//! Samples of several rows (windows, packs, buckets and drawn rows): finds the rows of each, and the form in
//! which a batch delivers them.

use std::sync::Arc;

use forebay_arrow::datatypes::{FieldRef, Schema, SchemaRef};
use forebay_base::{Error, Result};
use forebay_store::catalog::{Catalog, Projection};
use forebay_store::row_set::RowSet;
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::columns::{ROW_ID, ROW_MASK};
use super::places::of_column;
use crate::column::Codec;
use crate::loader::bad_rows::{BadRow, OnBadRow, SKIP_HINT};
use crate::loader::collate::{
    CU_SEQLENS, POSITION_IDS, PackShape, SEGMENT_IDS, SampleForm, WindowColumn, WindowShape,
};
use crate::loader::threads::IoRuntime;
use crate::reader::Filter;
use crate::reader::select::{self, Scanner};
use crate::samples::{
    Bucket, Buckets, ColumnValues, Frames, Pack, Packs, Population, Reshuffled, Sample, SampleIndex, Samples,
    UnfitRow, Window, Windows,
};

/// The largest number of classes that one warning lists.
const MAX_NAMED_CLASSES: usize = 5;

/// The version of the rules that make samples from the values of a column. Results that another version has
/// kept on disk are not used.
const KEPT_VERSION: u32 = 4;

/// The bytes of the entry that locates one row of a sample while its batch is made.
const PLACE_BYTES: u64 = 24;

/// The samples that are made from the selected rows, with warnings and rows that cannot be in a sample.
pub(super) struct FoundSamples {
    pub(super) index: SampleIndex,
    /// The number of rows in the largest sample, for packs and buckets, whose samples depend on lengths.
    pub(super) largest: Option<u64>,
    /// A warning about classes that no row has.
    pub(super) warning: Option<String>,
    /// The rows that cannot be in a sample, and that this rank counts. The list has at most one row more than
    /// the number of bad rows that may be skipped.
    pub(super) left_out: Vec<BadRow>,
}

impl From<SampleIndex> for FoundSamples {
    fn from(index: SampleIndex) -> Self {
        FoundSamples { index, largest: None, warning: None, left_out: Vec::new() }
    }
}

impl LoaderBuilder {
    /// Sets the columns to read if the user lists none: those in the offsets of a window, or those that are
    /// packed. Also refuses other options for packed columns.
    pub(super) fn columns_of_samples(&mut self) -> Result<()> {
        if self.plan_only {
            return Ok(());
        }
        let names: Vec<&str> = match &self.spec.samples {
            Samples::Windows(window) if self.spec.columns.is_none() => window.columns(),
            Samples::Packs(pack) => {
                self.check_packs(pack)?;
                match self.spec.columns {
                    None => pack.columns().iter().map(String::as_str).collect(),
                    Some(_) => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        if !names.is_empty() {
            let mut stored: Vec<String> = Vec::with_capacity(names.len());
            for name in names.into_iter().filter(|name| !self.spec.stack.contains_key(*name)) {
                let found = self.stored_names(name);
                stored.extend(found.into_iter().filter(|name| !stored.contains(name)).collect::<Vec<_>>());
            }
            self.spec.columns = Some(stored);
        }
        Ok(())
    }

    /// The stored names of the columns with a delivered name, or with names that match a pattern.
    fn stored_names(&self, name: &str) -> Vec<String> {
        let named = || vec![self.spec.stored_name(name).to_owned()];
        let fields = self.dataset.catalog.schema.fields();
        if !is_pattern(name) || fields.iter().any(|field| field.name() == name) {
            return named();
        }
        let delivered = |stored: &String| self.spec.rename.get(stored).unwrap_or(stored).clone();
        let stored = fields.iter().map(|field| field.name());
        let matching: Vec<String> =
            stored.filter(|stored| matches_name(name, &delivered(stored))).cloned().collect();
        // A pattern may also match only fields of structures.
        if matching.is_empty() { named() } else { matching }
    }

    /// Refuses options that would change packed columns in another way.
    fn check_packs(&self, pack: &Pack) -> Result<()> {
        let spec = &self.spec;
        if let Some((name, _)) =
            [("decode_with", !self.decoders.is_empty()), ("stack", !spec.stack.is_empty())]
                .into_iter()
                .find(|(_, is_given)| *is_given)
        {
            return Err(Error::invalid(format!("`{name}` was given, but the samples are packs")).hint(
                "packs deliver columns as they are stored, and no arrays of several columns or cells",
            ));
        }
        let by_column = spec.options_of_columns().into_iter().map(|(name, given)| (name, given.keyword));
        let masks = spec.null_mask.iter().map(|name| (name.as_str(), "null_mask"));
        let is_packed = |given: &str, packed: &String| given == packed || matches_name(given, packed);
        for (name, keyword) in by_column.chain(masks) {
            if let Some(packed) = pack.columns().iter().find(|packed| is_packed(name, packed)) {
                return Err(Error::invalid(format!("`{keyword}` names the column, which is packed"))
                    .hint("columns are packed as they are stored; options are for the other columns")
                    .at(of_column(packed)));
            }
        }
        Ok(())
    }

    /// The form in which a batch delivers samples, and the schema of batches.
    pub(super) fn form(
        &self,
        projection: &Projection,
        codecs: &[Codec],
        schema: SchemaRef,
    ) -> Result<(SchemaRef, SampleForm)> {
        if self.numbered
            && !(self.spec.samples.are_single_rows() || matches!(self.spec.samples, Samples::Buckets(_)))
        {
            return Err(Error::invalid(
                "`transform_rows` and `collate` take single rows, but samples are of several",
            )
            .hint("use `transform`, which gets whole batches"));
        }
        if self.plan_only {
            return Ok((schema, SampleForm::Rows));
        }
        match &self.spec.samples {
            Samples::Windows(window) => self.windows(window, codecs, &schema),
            Samples::Packs(pack) => self.packs(pack, projection, codecs, &schema),
            Samples::Rows | Samples::Buckets(_) | Samples::Weighted(_) => Ok((schema, SampleForm::Rows)),
        }
    }

    /// The form of a batch of packs, and its schema.
    fn packs(
        &self,
        pack: &Pack,
        projection: &Projection,
        codecs: &[Codec],
        schema: &Schema,
    ) -> Result<(SchemaRef, SampleForm)> {
        let stored = projection.schema();
        if let Some(missing) = pack.columns().iter().find(|name| stored.index_of(name).is_err()) {
            if let Some(error) = self.delivered_otherwise("is packed", missing, stored) {
                return Err(error);
            }
            return Err(Error::invalid("is packed, but `columns` does not list it")
                .hint("list it, or leave `columns` out to read the packed columns alone")
                .at(of_column(missing)));
        }
        let is_added = |name: &str| [POSITION_IDS, SEGMENT_IDS, CU_SEQLENS].contains(&name);
        if let Some(twice) = schema.fields().iter().find(|field| is_added(field.name())) {
            return Err(Error::invalid("packs add a column of this name, but there is one already")
                .hint("give that one a new name with `rename`, or leave it out of `columns`")
                .at(of_column(twice.name())));
        }
        let (masks, rows): (Vec<_>, Vec<_>) =
            schema.fields().iter().cloned().partition(|field| field.name() == ROW_MASK);
        let is_gathered = |codec: &Codec| matches!(codec, Codec::Gather(_) | Codec::GatherOf(..));
        if let Some((field, _)) = rows.iter().zip(codecs).find(|(_, codec)| !is_gathered(codec)) {
            return Err(Error::invalid("is decoded, which columns of packs are not")
                .hint("leave it out of `columns`, or deliver it without `decode`")
                .at(of_column(field.name())));
        }
        let shape = PackShape::new(pack, stored, &rows)?;
        let fields: Vec<FieldRef> = shape.delivered().into_iter().chain(masks).collect();
        Ok((Arc::new(Schema::new(fields)), SampleForm::Packs(shape)))
    }

    /// The form of a batch of windows, and its schema.
    fn windows(&self, window: &Window, codecs: &[Codec], schema: &Schema) -> Result<(SchemaRef, SampleForm)> {
        self.check_offsets_of_views(window)?;
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let has_views = |name: &str| self.all_views().any(|(column, _)| column == name);
        let is_delivered = |name: &str| names.contains(&name) || has_views(name);
        if let Some(unknown) = window.columns().into_iter().find(|name| !is_delivered(name)) {
            if let Some(error) = self.delivered_otherwise("an offset of the window lists it", unknown, schema)
            {
                return Err(error);
            }
            let error = match self.spec.columns.is_some() {
                true => Error::invalid("an offset of the window lists it, but it is not delivered")
                    .hint("add it to `columns`, or leave `columns` out"),
                false => Error::invalid("an offset of the window lists it, but there is no such column"),
            };
            return Err(error.at(of_column(unknown)));
        }
        let mut columns = Vec::with_capacity(names.len());
        for (column, field) in
            schema.fields().iter().enumerate().filter(|(_, field)| field.name() != ROW_MASK)
        {
            let rows = match self.is_stacked(field.name()) {
                // A column in a stack has all rows of the window here. The stack decides which of them are
                // delivered.
                true => (0..window.length()).collect(),
                false => rows_of(window, field.name()),
            };
            if rows.is_empty() {
                return Err(Error::invalid("is read, but no offset of the window lists it")
                    .hint("list it at an offset, or leave it out of `columns`")
                    .at(of_column(field.name())));
            }
            let takes_window = codecs.get(column).is_some_and(Codec::takes_window);
            columns.push(WindowColumn { field: field.clone(), rows, takes_window });
        }
        let shape = WindowShape::new(window.length(), window.drawn_frames(), columns);
        let mut fields = shape.delivered()?;
        // The column `row_mask` has one value for each window.
        fields.extend(schema.fields().iter().find(|field| field.name() == ROW_MASK).cloned());
        Ok((Arc::new(Schema::new(fields)), SampleForm::Windows(shape)))
    }

    /// The error if samples deliver a column that `rename` or `flatten` delivers under another name.
    /// `use_of_it` is the place in the options that names the column.
    fn delivered_otherwise(&self, use_of_it: &str, name: &str, delivered: &Schema) -> Option<Error> {
        let mut names = delivered.fields().iter().map(|field| field.name().as_str());
        let of_name = |field: &&str| field.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let (cause, new) = match self.spec.rename.get(name) {
            Some(new) => (format!("`rename` delivers it as {new:?}"), new.as_str()),
            None => ("`flatten` delivers its fields as columns".to_owned(), names.find(of_name)?),
        };
        let hint = format!("samples name the columns that they deliver by their new names, such as {new:?}");
        Some(Error::invalid(format!("{use_of_it}, but {cause}")).hint(hint).at(of_column(name)))
    }

    /// The number of rows of a window for which a column is delivered, and whether these rows share their
    /// random numbers. `None` if samples are not windows.
    pub(super) fn rows_of_window(&self, name: &str) -> Option<(usize, Frames)> {
        match &self.spec.samples {
            Samples::Windows(window) => Some((rows_of(window, name).len(), window.drawn_frames())),
            _ => None,
        }
    }

    /// Refuses a window that lists the views of an image at different offsets, because each image is decoded
    /// once for all its views.
    fn check_offsets_of_views(&self, window: &Window) -> Result<()> {
        for (name, views) in self.all_views() {
            let columns: Vec<String> = views.iter().map(|view| view.column(name)).collect();
            let Some((first, others)) = columns.split_first() else { continue };
            if let Some(other) = others.iter().find(|other| rows_of(window, other) != rows_of(window, first))
            {
                return Err(Error::invalid(format!("the window lists it at other offsets than {first:?}"))
                    .hint(format!(
                        "list {name:?}, which stands for all its views: an image is decoded once for them"
                    ))
                    .at(of_column(other)));
            }
        }
        Ok(())
    }

    /// The largest number of bytes that a sample takes in a batch in which each row takes `bytes`. Sizes of
    /// buckets and packs depend on the lengths of rows, which are not known yet. Until then a bucket counts
    /// as one row, and a pack as its numbers and one row.
    pub(super) fn sample_bytes(&self, form: &SampleForm, bytes: u64) -> u64 {
        match (form, &self.spec.samples) {
            (SampleForm::Packs(packs), _) => packs.bytes().saturating_add(bytes),
            (_, Samples::Windows(window)) => u64::from(window.length()).saturating_mul(bytes + PLACE_BYTES),
            _ => bytes,
        }
    }

    /// Makes the samples from the selected rows.
    pub(super) fn sample_index(
        &self,
        io: &IoRuntime,
        scanner: &Scanner,
        selected: Vec<RowSet>,
        denied: Option<&str>,
    ) -> Result<FoundSamples> {
        let samples = &self.spec.samples;
        let catalog = scanner.catalog();
        let names: Vec<&str> = match samples {
            Samples::Rows => return Ok(SampleIndex::of_rows(selected).into()),
            Samples::Windows(window) => window.deciding(),
            Samples::Packs(pack) => vec![pack.length_column()],
            Samples::Buckets(bucket) => bucket.cost().columns(),
            Samples::Weighted(sample) => vec![sample.column()],
        };
        let names = names.into_iter().map(|name| self.deciding(name)).collect::<Result<Vec<&str>>>()?;
        let deciding = scanner.of_columns(&names)?;
        let rows = selected.clone();
        if let Samples::Windows(window) = samples {
            let key = self.kept_key(Some(window), &names, denied);
            let of_rows = window.clone();
            let starts =
                io.wait_for(async move { select::windows(of_rows, rows, &deciding, &key).await })??;
            return Ok(SampleIndex::of_kind(Arc::new(Windows::new(window, starts)), selected).into());
        }
        if let Samples::Weighted(sample) = samples {
            let key = self.kept_key(None, &names, denied);
            let (of_rows, key) = (sample.clone(), format!("{key} {}", sample.kept_as()));
            let values =
                io.wait_for(async move { select::values(of_rows, rows, &deciding, &key).await })??;
            let (index, warning) = self.drawn(sample, catalog, selected, values)?;
            return Ok(FoundSamples { warning, ..index.into() });
        }
        let mut columns = Vec::with_capacity(names.len());
        for name in &names {
            columns.push(self.lengths_by(io, scanner, &selected, name, denied)?);
        }
        if let Samples::Buckets(bucket) = samples {
            for (name, lengths) in names.iter().zip(&mut columns) {
                let data_type = catalog.schema.field(catalog.column(name)?).data_type();
                if bucket.cost().column().is_some() || !data_type.is_integer() {
                    lengths.iter_mut().for_each(|lengths| bucket.rounded(lengths));
                }
            }
        }
        let mut lengths = match (samples, &mut columns[..]) {
            (Samples::Buckets(bucket), columns) if bucket.cost().column().is_none() => {
                costs_in_buckets(bucket, columns, catalog, &selected)?
            }
            (_, columns) => std::mem::take(&mut columns[0]),
        };
        let column = match samples {
            Samples::Packs(pack) => pack.length_column(),
            _ => names[0],
        };
        let left_out = self.left_out(catalog, &selected, column, &mut lengths)?;
        let anew = |reshuffled: Reshuffled, selected: Vec<RowSet>| {
            let largest = Some(reshuffled.largest().into());
            (largest, SampleIndex::drawn(reshuffled, self.spec.shuffle.seed(), selected))
        };
        if let Samples::Packs(pack) = samples {
            if pack.is_reshuffled() {
                let (largest, index) = anew(Reshuffled::packs(pack, lengths), selected);
                return Ok(FoundSamples { largest, left_out, ..index.into() });
            }
            let mut packs = Vec::with_capacity(lengths.len());
            let mut lengths = lengths.into_iter();
            for groups in pack.across_borders().sequences(catalog) {
                let of_rows = lengths.by_ref().take(groups.len()).collect();
                packs.extend(pack.of_sequence(of_rows));
            }
            let packs = Packs(packs);
            let largest = Some(packs.largest().into());
            let index = SampleIndex::of_kind(Arc::new(packs), selected);
            return Ok(FoundSamples { largest, left_out, ..index.into() });
        }
        let Samples::Buckets(bucket) = samples else { return Ok(SampleIndex::of_rows(selected).into()) };
        if bucket.is_reshuffled() {
            let (largest, index) = anew(Reshuffled::buckets(bucket, lengths), selected);
            return Ok(FoundSamples { largest, left_out, ..index.into() });
        }
        let made = |(group, costs): (usize, &Vec<u32>)| match bucket.is_joint() {
            true => bucket.of_group(costs, &of_group(&columns, group)),
            false => bucket.of_group(costs, &[]),
        };
        let buckets = Buckets(lengths.iter().enumerate().map(made).collect());
        let largest = Some(buckets.largest() as u64);
        let index = SampleIndex::of_kind(Arc::new(buckets), selected);
        Ok(FoundSamples { largest, left_out, ..index.into() })
    }

    /// The stored name of a column that decides which rows make up a sample. Packs name it as it is
    /// delivered, other samples as it is stored.
    ///
    /// # Errors
    /// Fails for the new name of a column, and for a field of a structure. A name that does not exist is
    /// found when the column is read.
    fn deciding<'a>(&'a self, name: &'a str) -> Result<&'a str> {
        let before = self.spec.stored_name(name);
        let (stored, option) = match &self.spec.samples {
            Samples::Packs(_) => (before, "columns and `lengths` of packs"),
            Samples::Buckets(_) => (name, "costs of buckets"),
            Samples::Weighted(_) => (name, "columns of classes and weights"),
            Samples::Windows(_) | Samples::Rows => (name, "`by` and `within` of windows"),
        };
        let catalog = &self.dataset.catalog;
        if catalog.column(stored).is_ok() {
            return Ok(stored);
        }
        if self.path_is_there(before) {
            let renamed = if before == name { String::new() } else { format!("{before:?}, ") };
            let cause = format!("decides about samples, but it is {renamed}a field of a structure");
            let hint = format!("{option} are whole columns: write the field as a column of its own");
            return Err(Error::invalid(cause).hint(hint).at(of_column(name)));
        }
        if catalog.column(before).is_ok() {
            let cause =
                format!("decides about samples, but it is the name that `rename` gives to {before:?}");
            let hint = format!("{option} are stored names: write {before:?}");
            return Err(Error::invalid(cause).hint(hint).at(of_column(name)));
        }
        Ok(stored)
    }

    /// The lengths of the selected rows in each row group, as a column gives them. The column is read only
    /// once, since the lengths are kept on disk.
    pub(super) fn lengths_by(
        &self,
        io: &IoRuntime,
        scanner: &Scanner,
        selected: &[RowSet],
        column: &str,
        denied: Option<&str>,
    ) -> Result<Vec<Vec<u32>>> {
        let deciding = scanner.of_columns(&[column])?;
        let (rows, key) = (selected.to_vec(), self.kept_key(None, &[column], denied));
        io.wait_for(async move { select::lengths(rows, &deciding, &key).await })?
    }

    /// The key under which the results for the columns `names` of the selected rows are kept on disk. The key
    /// contains a window, but no other kind of samples, since lengths and classes do not depend on the
    /// samples.
    fn kept_key(&self, window: Option<&Window>, names: &[&str], denied: Option<&str>) -> String {
        let filter = self.spec.filter.as_ref().map(Filter::canonical);
        let key = (window, names, filter, denied, &self.only, KEPT_VERSION);
        // Names, numbers and texts can always be written as JSON.
        serde_json::to_string(&key).unwrap_or_default()
    }

    /// Takes the rows that cannot be in a sample out of `lengths`, and returns those that this rank counts.
    /// The ranks divide these rows, so that each row is counted once.
    ///
    /// # Errors
    /// Fails if there is such a row and bad rows are not skipped.
    fn left_out(
        &self,
        catalog: &Catalog,
        selected: &[RowSet],
        column: &str,
        lengths: &mut [Vec<u32>],
    ) -> Result<Vec<BadRow>> {
        let (samples, shard) = (&self.spec.samples, self.spec.shard);
        let bad_row = |UnfitRow { group, row, why }| {
            let row = u64::from(selected[group].select(row));
            let place = catalog.place_of_row(&catalog.groups[group], row).column(column);
            let id = catalog.ids_of(group).at(row);
            BadRow::new(samples.refusal(why).at(place), row, id)
        };
        let mut unfit = samples.without_unfit(lengths);
        let at_most = match self.spec.on_bad_row {
            OnBadRow::Skip { at_most, .. } => at_most,
            // A loader that only plans repeats a run which left these rows out, or which had none.
            OnBadRow::Raise if self.plan_only => {
                unfit.for_each(drop);
                return Ok(Vec::new());
            }
            OnBadRow::Raise => {
                let first = unfit.next().map(|first| bad_row(first).error().hint_also(SKIP_HINT));
                return first.map_or(Ok(Vec::new()), Err);
            }
        };
        let (rank, world) = (shard.rank() as usize, shard.world() as usize);
        let most = usize::try_from(at_most).unwrap_or(usize::MAX).saturating_add(1);
        let mut left_out = Vec::new();
        for (_, row) in unfit.enumerate().filter(|(at, _)| at % world == rank) {
            if left_out.len() < most {
                left_out.push(bad_row(row));
            }
        }
        Ok(left_out)
    }

    /// Makes samples of rows that are drawn by weight, and a warning about classes that no row has.
    fn drawn(
        &self,
        sample: &Sample,
        catalog: &Catalog,
        selected: Vec<RowSet>,
        values: ColumnValues,
    ) -> Result<(SampleIndex, Option<String>)> {
        if selected.iter().all(|rows| rows.count() == 0) {
            // If no rows are selected, a later check gives a better error.
            return Ok((SampleIndex::of_rows(selected), None));
        }
        let made = Population::new(sample, values).map_err(|(row, error)| match row {
            Some((group, row)) => {
                let row = selected[group].select(row).into();
                error.at(catalog.place_of_row(&catalog.groups[group], row).column(sample.column()))
            }
            None => error.at(of_column(sample.column())),
        });
        let (population, unused) = made?;
        let warning = (!unused.is_empty()).then(|| {
            let classes: Vec<String> =
                unused.iter().take(MAX_NAMED_CLASSES).map(ToString::to_string).collect();
            let more = if unused.len() > MAX_NAMED_CLASSES { ", ..." } else { "" };
            format!(
                "no selected row has {} of the classes that have a weight: {}{more}",
                unused.len(),
                classes.join(", ")
            )
        });
        let seed = sample.seed_beside(self.spec.shuffle.seed());
        Ok((SampleIndex::drawn(population, seed, selected), warning))
    }
}

/// The costs of the selected rows of each row group. `columns` has the lengths and numbers of the rows in
/// each column of the cost.
fn costs_in_buckets(
    bucket: &Bucket,
    columns: &[Vec<Vec<u32>>],
    catalog: &Catalog,
    selected: &[RowSet],
) -> Result<Vec<Vec<u32>>> {
    let of_group = |(group, selected): (usize, &RowSet)| {
        bucket.costs(&of_group(columns, group)).map_err(|(row, error)| {
            let row = selected.select(row as u32).into();
            let place = catalog.place_of_row(&catalog.groups[group], row);
            error.at(place.column(bucket.cost().columns()[0]))
        })
    };
    selected.iter().enumerate().map(of_group).collect()
}

/// The lengths and numbers of one row group in each column.
fn of_group(columns: &[Vec<Vec<u32>>], group: usize) -> Vec<&[u32]> {
    columns.iter().map(|column| &*column[group]).collect()
}

/// The rows of a window for which a column is delivered. A column that is made from another column, such as a
/// mask, has the rows of the other column.
fn rows_of(window: &Window, name: &str) -> Vec<u32> {
    if name == ROW_ID {
        return (0..window.length()).collect();
    }
    let mut rows = window.rows_of(name);
    let mut made_of = name;
    while rows.is_empty()
        && let Some((before, _)) = made_of.rsplit_once('.')
    {
        made_of = before;
        rows = window.rows_of(made_of);
    }
    rows
}
