//! The option `stack`: the names of the columns in a stack, and the matrix that is delivered for them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, FieldRef, Schema};
use forebay_base::{Error, Result};
use forebay_store::catalog::Projection;

use super::LoaderBuilder;
use super::null_masks::Masked;
use super::patterns::places_of;
use super::places::of_column;
use crate::column::{Codec, Column, ColumnSpec, NullMaskCodec, Pad, Stack, StackBlock, StackCodec};

impl LoaderBuilder {
    /// Returns this builder with stored names in place of the patterns in stacks. Options that were given for
    /// a stack are then given for each of its columns.
    pub(super) fn with_stacks(mut self) -> Result<Self> {
        if self.spec.stack.is_empty() {
            return Ok(self);
        }
        let projection = self.projection()?;
        let mut stack_of: HashMap<String, &str> = HashMap::new();
        let mut stacks = self.spec.stack.clone();
        for (name, stack) in &self.spec.stack {
            if name.is_empty() {
                return Err(Error::invalid("stack: an empty name").hint("give the column a name"));
            }
            let columns = self.stacked(name, stack, &projection)?;
            for column in &columns {
                if let Some(other) = stack_of.insert(column.clone(), name) {
                    let cause = format!("is stacked in {other:?} and in {name:?}");
                    let hint = "a column is in one stack: leave it out of the other";
                    return Err(Error::invalid(cause).hint(hint).at(of_column(column)));
                }
            }
            stacks.insert(name.clone(), stack.of_columns(columns));
        }
        for (name, stack) in &stacks {
            self.name_columns(name, stack, &projection)?;
        }
        self.spec.stack = stacks;
        Ok(self)
    }

    /// The stored names of the columns in a stack, in their order, with names in place of patterns.
    fn stacked(&self, stack: &str, listed: &Stack, projection: &Projection) -> Result<Vec<String>> {
        let stored: Vec<String> =
            projection.selected().iter().map(|selected| self.unrenamed(selected)).collect();
        let listed = listed.columns();
        for (at, name) in listed.iter().enumerate() {
            if stored.contains(name) && listed[..at].contains(name) {
                let cause =
                    format!("stack: {stack:?} lists column {name:?} twice, again at place {}", at + 1);
                return Err(Error::invalid(cause));
            }
        }
        let places = places_of("stack", listed, &stored, |name| self.unknown(name))?;
        Ok(places.into_iter().map(|place| stored[place].clone()).collect())
    }

    /// Gives the options of a stack to each of its columns, and adds a cast of the columns to the type of the
    /// stack.
    fn name_columns(&mut self, name: &str, stack: &Stack, projection: &Projection) -> Result<()> {
        let columns = self.delivered_columns(stack);
        let spec = &mut self.spec;
        if let Some(mut given) = spec.by_column.remove(name) {
            let fill = given.fill_null.take();
            if let Some(given) = given.given().first() {
                let cause = format!("{} names {name:?}, which is a stack of columns", given.keyword);
                return Err(Error::invalid(cause)
                    .hint("a stack takes `fill_null` and `null_mask`: name its columns in other options"));
            }
            for column in &columns {
                let option = &mut spec.column(column).fill_null;
                *option = option.take().or_else(|| fill.clone());
            }
        }
        if let Some(at) = spec.null_mask.iter().position(|masked| masked == name) {
            spec.null_mask.remove(at);
            for column in &columns {
                if !spec.null_mask.contains(column) {
                    spec.null_mask.push(column.clone());
                }
            }
        }
        let Some(cast) = stack.cast() else { return Ok(()) };
        for column in &columns {
            let stored = projection.schema().field_with_name(column).map(|field| field.data_type());
            // A list is not cast, so that the error for lists in a stack names the stored type.
            let is_as_wanted = stored.is_ok_and(|stored| stored == cast.data_type() || stored.is_nested());
            let options = spec.column(column);
            if options.cast.is_none() && options.encode.is_none() && !is_as_wanted {
                options.cast = Some(cast.clone());
            }
        }
        Ok(())
    }

    /// Whether a column, by its delivered name, is in a stack.
    pub(super) fn is_stacked(&self, column: &str) -> bool {
        let is_it = |stored: &String| self.spec.rename.get(stored).unwrap_or(stored) == column;
        self.spec.stack.values().any(|stack| stack.columns().iter().any(is_it))
    }

    /// The delivered names of the columns in a stack, which other options use.
    fn delivered_columns(&self, stack: &Stack) -> Vec<String> {
        let names = stack.columns().iter();
        names.map(|stored| self.spec.rename.get(stored).unwrap_or(stored).clone()).collect()
    }

    /// Makes the columns of the stacks and of their masks. `each` has the columns that are read; the columns
    /// among them that are in a stack become [`Codec::Stacked`].
    pub(super) fn stacks(
        &self,
        projection: &Projection,
        read: &Schema,
        each: &mut [Column],
        masked: &Masked<'_>,
    ) -> Result<Vec<Column>> {
        let mut stacks = Vec::with_capacity(self.spec.stack.len());
        for (name, stack) in &self.spec.stack {
            if read.index_of(name).is_ok() {
                return Err(Error::invalid("a stack has the name of a column that is read")
                    .hint("give it another name")
                    .at(of_column(name)));
            }
            let columns = self.delivered_columns(stack);
            let places: Vec<usize> =
                columns.iter().map(|column| read.index_of(column).unwrap_or_default()).collect();
            let is_masked = masked.iter().any(|field| columns.contains(field.name()));
            let blocks = self.blocks(projection, &places, masked);
            let columns = places.iter().map(|place| (*place, each[*place].clone())).collect();
            stacks.push(StackCodec::column(name, columns, stack.cast(), &blocks)?);
            if is_masked {
                let name = Pad::mask_name(name);
                let mask = |place: &usize| {
                    let codec = Arc::new(NullMaskCodec { name: name.clone() });
                    Ok((*place, Column::with_codec(Codec::GatherOf(*place, codec), read.field(*place))?))
                };
                let masks = places.iter().map(mask).collect::<Result<_>>()?;
                stacks.push(StackCodec::column(&name, masks, None, &blocks)?);
            }
            places.iter().for_each(|place| each[*place].codec = Codec::Stacked);
        }
        Ok(stacks)
    }

    /// The blocks among the columns of a stack: neighbours that are stored in one type and have the same
    /// options. Empty with a cache, because rows from a cache are in memory as they are stored.
    fn blocks(
        &self,
        projection: &Projection,
        places: &[usize],
        masked: &Masked<'_>,
    ) -> Vec<(Range<usize>, DataType)> {
        let catalog = &self.dataset.catalog;
        let rows = catalog.groups.iter().map(|group| group.rows).max().unwrap_or(0);
        if self.keeps_rows() {
            return Vec::new();
        }
        let is_masked: HashSet<&str> = masked.iter().map(|field| field.name().as_str()).collect();
        let form = |place: &usize| {
            let field = projection.schema().field(*place);
            let options =
                self.spec.by_column.get(field.name()).filter(|given| **given != ColumnSpec::default());
            let is_encoded = options.is_some_and(|given| given.encode.is_some());
            let is_key = catalog.is_key(projection.selected()[*place].column);
            let is_decoded = self.decodings.contains_key(field.name());
            let takes = StackBlock::takes(field.data_type()) && !is_encoded && !is_decoded && !is_key;
            takes.then(|| {
                (field.data_type(), field.is_nullable(), options, is_masked.contains(&**field.name()))
            })
        };
        let mut blocks = Vec::new();
        let mut end = 0;
        for alike in places.chunk_by(|one, other| form(one) == form(other)) {
            let begin = end;
            end += alike.len();
            let Some((data_type, ..)) = form(&alike[0]) else { continue };
            let most = StackBlock::most_columns(data_type, rows);
            let cuts = (begin..end).step_by(most).map(|begin| begin..end.min(begin + most));
            blocks.extend(cuts.filter(|block| block.len() > 1).map(|block| (block, data_type.clone())));
        }
        blocks
    }
}

/// The fields of a batch: those of all columns that are not in a stack.
pub(super) fn without_stacked(fields: &[FieldRef], codecs: &[Codec]) -> Vec<FieldRef> {
    let is_stacked = |at: usize| matches!(codecs.get(at), Some(Codec::Stacked));
    fields.iter().enumerate().filter(|(at, _)| !is_stacked(*at)).map(|(_, field)| field.clone()).collect()
}
