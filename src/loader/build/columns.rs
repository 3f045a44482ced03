//! Chooses the codec of each column that is read.

use std::collections::HashMap;
use std::iter::{repeat, repeat_n};
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use forebay_base::{Error, Result};
use forebay_store::catalog::{Catalog, Projection};

use super::LoaderBuilder;
use super::casts::cast_schema;
use super::null_masks::{Masked, no_mask};
use super::patterns::check_is_name;
use super::places::of_column;
use super::plain::plain;
use super::stacks::without_stacked;
use super::vectors::{after_vectors, mask_of_vectors};
use crate::batch::{is_variable, longest};
use crate::column::{Codec, Column, ColumnSpec, Declared, DecoderCodec, Pad, PadMaskCodec};
use crate::loader::collate::SampleForm;

/// The name of the added column with the number of each row.
pub(in crate::loader) const ROW_ID: &str = "row_id";
/// The name of the added column that is false for rows that are delivered again as padding.
pub(in crate::loader) const ROW_MASK: &str = "row_mask";

/// The columns that are delivered, made from those that are read.
pub(super) struct Delivered {
    pub(super) codecs: Vec<Codec>,
    /// The number of columns whose values are written into slots of a buffer, such as decoded images.
    pub(super) decoded: usize,
    /// The fields of the columns of all codecs, and of `row_id` and `row_mask`.
    pub(super) all: SchemaRef,
    /// The schema of batches. It lacks the columns whose values are delivered in a stack.
    pub(super) schema: SchemaRef,
    pub(super) form: SampleForm,
    pub(super) lengths: RowBytes,
    /// The bytes of a sample in a batch. They are an estimate if values of a column differ in length.
    pub(super) sample_bytes: u64,
}

impl Delivered {
    /// Whether a batch may be a slice of larger arrays, which needs values of a fixed width in all columns.
    pub(super) fn are_flat(&self) -> bool {
        let is_flat = self.lengths.all(self.all.fields(), is_flat);
        is_flat && self.decoded == 0 && self.lengths.columns.is_empty()
    }

    /// The number of bits of a row in the widest block of stacked columns; 0 if there are none.
    pub(super) fn block_bits(&self) -> u64 {
        let stacks = self.codecs.iter().filter_map(|codec| match codec {
            Codec::Stack(stack) => Some(stack.blocks()),
            _ => None,
        });
        stacks.flatten().map(|block| block.row_bits()).max().unwrap_or(0)
    }
}

impl LoaderBuilder {
    /// Finds the columns to deliver for those that are read.
    pub(super) fn delivered(&self, projection: &Projection) -> Result<Delivered> {
        let (codecs, all) = self.codecs(projection)?;
        let (all, form) = self.form(projection, &codecs, all)?;
        let schema = Arc::new(Schema::new(without_stacked(all.fields(), &codecs)));
        let lengths = self.lengths(&codecs, projection, &form)?;
        let sample_bytes = self.sample_bytes(&form, lengths.others + lengths.of_values);
        let decoded = codecs.iter().filter(|codec| codec.slot().is_some()).count();
        Ok(Delivered { codecs, decoded, all, schema, form, lengths, sample_bytes })
    }

    /// The codec of each column, and the schema of batches. Refuses combinations of options that cannot work.
    fn codecs(&self, projection: &Projection) -> Result<(Vec<Codec>, SchemaRef)> {
        let stored = projection.schema();
        // Vectors, and arrays in cells, become lists first. Casts see these lists, and all other options see
        // the columns after the casts.
        let listed = &self.with_lists(stored)?;
        let cast = self.cast_columns(listed)?;
        let read = &cast_schema(listed, &cast)?;
        let catalog = &self.dataset.catalog.schema;
        let declared = Declared::read(catalog).delivered_as(projection.stored_names(catalog));
        let masked = self.null_masked(read, &declared)?;
        let mut columns = self.asked_for(read, &masked)?;
        let filled = self.filled(read, &declared, &masked, &columns)?;
        columns.extend(filled);
        let fields = read.fields().iter().zip(listed.fields()).zip(stored.fields());
        let each = fields.map(|((field, listed), stored)| {
            let column = match columns.remove(field.name().as_str()) {
                Some(column) => column,
                None => plain(&declared, field, None)?,
            };
            self.after_arrays(after_vectors(self.after_cast(column, listed, &cast)?, stored)?, stored)
        });
        let mut each = each.collect::<Result<Vec<_>>>()?;
        each.extend(self.other_views(read)?);
        each.extend(self.geometries(read, &masked)?);
        let masks = self.pad_masks(read, stored, &each)?;
        each.extend(masks);
        each.extend(self.null_masks(read, &masked)?);
        let stacks = self.stacks(projection, read, &mut each, &masked)?;
        each.extend(stacks);
        let (codecs, mut fields): (Vec<_>, Vec<_>) =
            each.into_iter().map(|Column { codec, field }| (codec, field)).unzip();
        self.check_names_of_views(&fields)?;
        if self.spec.row_id {
            fields.push(added_field(ROW_ID, DataType::Int64, &fields)?);
        }
        if self.spec.row_mask {
            fields.push(added_field(ROW_MASK, DataType::Boolean, &fields)?);
        }
        Ok((codecs, Arc::new(Schema::new(fields))))
    }

    /// Makes the columns for which an option says how to deliver them.
    pub(super) fn asked_for<'a>(
        &'a self,
        read: &'a Schema,
        masked: &Masked<'_>,
    ) -> Result<HashMap<&'a str, Column>> {
        let nulls = |name: &str| self.null_options(name, masked);
        let mut columns = HashMap::new();
        let mut insert = |name, column| match columns.insert(name, column) {
            Some(_) => Err(self.twice(name)),
            None => Ok(()),
        };
        let made = |name: &str, option: &str, make: &dyn Fn(&Field) -> Result<Column>| {
            let field = self.read_column(read, name, option)?;
            make(field).map_err(|error| error.at(of_column(name)))
        };
        for (name, _) in self.images() {
            let image = |field: &Field| Column::decoded(self.image_codec(read, name, masked)?, field);
            insert(name, made(name, "decode", &image)?)?;
        }
        for (name, clip) in self.clips() {
            let clip = |field: &Field| Column::decoded(self.clip_codec(clip, field, name, masked)?, field);
            insert(name, made(name, "decode", &clip)?)?;
        }
        for (name, column) in self.viewed(read, masked)? {
            insert(name, column)?;
        }
        for (name, column) in self.following(read, masked)? {
            insert(name, column)?;
        }
        for (name, decoder) in &self.decoders {
            check_is_name("decode_with", name, read.column_with_name(name).is_some())?;
            let codec =
                |field: &Field| Column::decoded(DecoderCodec::new(decoder.clone(), nulls(name))?, field);
            insert(name, made(name, "decode_with", &codec)?)?;
        }
        for (name, given) in self.spec.options_of_columns() {
            // A list that is changed along with an image (such as a list of boxes) is padded only after that
            // change.
            let is_padded = given.keyword == "pad" && self.is_following(name);
            if given.delivers && !is_padded {
                let field = self.read_column(read, name, given.keyword)?;
                let column =
                    given.option.column(field, nulls(name)).map_err(|error| error.at(of_column(name)))?;
                column.map_or(Ok(()), |column| insert(name, column))?;
            }
        }
        let by_schema = self.delivered_by_schema(read, &columns, nulls)?;
        columns.extend(by_schema);
        Ok(columns)
    }

    /// Makes the columns whose nulls are masked or filled, except those in `asked`, which another option
    /// delivers.
    fn filled<'a>(
        &'a self,
        read: &'a Schema,
        declared: &Declared,
        masked: &Masked<'a>,
        asked: &HashMap<&str, Column>,
    ) -> Result<HashMap<&'a str, Column>> {
        let mut filled = HashMap::new();
        for field in masked {
            match asked.get(field.name().as_str()) {
                Some(column) if column.codec.takes_mask() => {}
                Some(_) => return Err(no_mask().at(of_column(field.name()))),
                None => drop(filled.insert(field.name().as_str(), self.masked(declared, field)?)),
            }
        }
        for (name, value) in self.spec.with_option(|column| column.fill_null.as_ref()) {
            let field = self.read_column(read, name, "fill_null")?;
            if filled.contains_key(name) {
                continue;
            }
            match asked.get(name) {
                Some(Column { codec, .. }) if codec.takes_fill() => {}
                Some(Column { codec, .. }) => {
                    return Err(codec.noun().no_fill(codec.takes_mask()).at(of_column(name)));
                }
                None => drop(filled.insert(name, plain(declared, field, Some(value))?)),
            }
        }
        Ok(filled)
    }

    /// The error for a column for which two options say how to deliver it.
    pub(super) fn twice(&self, name: &str) -> Error {
        let error = match self.goes_along(name) {
            true => Error::invalid("goes along with boxes, but another option says how it is delivered")
                .hint("a column goes along with one column of boxes, as it is stored"),
            false => Error::invalid("two options say how the column is delivered")
                .hint(format!("{} it, one of these", one_of(&ColumnSpec::delivering()))),
        };
        error.at(of_column(name))
    }

    /// Makes the masks of padded lists, which mark the values that are not padding.
    fn pad_masks(&self, read: &Schema, stored: &Schema, made: &[Column]) -> Result<Vec<Column>> {
        let padded = self.spec.with_option(|column| column.pad.as_ref());
        let masked = padded.filter(|(_, pad)| pad.has_mask());
        let columns = masked.map(|(column, pad)| {
            let name = Pad::mask_name(column);
            if read.index_of(&name).is_ok() {
                return Err(Error::invalid("the mask of padded lists has the name of a stored column")
                    .hint("leave that column out of `columns`, or pad without a mask")
                    .at(of_column(&name)));
            }
            let field = self.read_column(read, column, "pad")?;
            let place = read.index_of(column).unwrap_or_default();
            if let Some(Column { codec: Codec::Follow(follow), .. }) = made.get(place)
                && let Some(mask) = follow.mask(&name)
            {
                return Column::with_codec(Codec::FollowOf(place, mask), field);
            }
            let mask = PadMaskCodec { pad: pad.clone(), name };
            let mask = Column::with_codec(Codec::GatherOf(place, Arc::new(mask)), field)?;
            let stored = stored.field(place);
            Ok(self.mask_of_arrays(mask_of_vectors(mask, stored), stored))
        });
        columns.collect()
    }

    /// The bytes that a row takes in a batch, as far as they are known before its cells are read. Packed
    /// columns are left out, since the bytes of a pack do not depend on its rows.
    fn lengths(&self, codecs: &[Codec], projection: &Projection, form: &SampleForm) -> Result<RowBytes> {
        let catalog = &self.dataset.catalog;
        let of_id = if self.spec.row_id { size_of::<i64>() as u64 } else { 0 };
        let of_mask = u64::from(self.spec.row_mask);
        let mut bytes_of_row = RowBytes { are_known: true, others: of_id + of_mask, ..RowBytes::default() };
        let (mut alike, mut variable) = (Vec::new(), Vec::new());
        for (column, (field, codec)) in projection.schema().fields().iter().zip(codecs).enumerate() {
            let stored = projection.selected()[column].column;
            let is_key = catalog.is_key(stored);
            bytes_of_row.keys.push(is_key);
            if matches!(codec, Codec::Stacked) || form.packs(column) {
                continue;
            }
            let size = codec.size();
            if let Some(bytes) = size.bytes {
                bytes_of_row.others += bytes;
                if !size.is_expanded {
                    continue;
                }
            }
            if is_key && is_variable(field.data_type()) {
                let values = catalog.keys_of(stored).flatten().map(|key| longest(&key.value));
                bytes_of_row.others += values.max().unwrap_or(0);
                continue;
            }
            match codec.slot() {
                // The bytes of a value that is made from a whole window are divided equally among the rows of
                // the window.
                Some(bytes) if codec.takes_window() => {
                    bytes_of_row.others += (bytes as u64).div_ceil(self.spec.samples.rows_of_each());
                }
                Some(bytes) => bytes_of_row.others += bytes as u64,
                None if is_variable(field.data_type()) => {
                    // If the content of a cell determines its delivered size, this size is computed later for
                    // each batch, and the stored size is the estimate here.
                    let times = if size.is_by_cell { 1 } else { size.growth };
                    bytes_of_row.others += size.added;
                    bytes_of_row.columns.extend(repeat_n(column, times));
                    bytes_of_row.to_longest.extend(size.is_to_longest.then_some(column));
                    bytes_of_row.expanded.extend(size.is_expanded.then_some(column));
                    bytes_of_row.by_cell.extend(size.is_by_cell.then(|| (column, codec.clone())));
                    variable.push(column);
                }
                None => alike.push(column),
            }
        }
        // The columns that are not stored come last in `codecs`.
        let others = codecs[projection.schema().fields().len()..].iter();
        bytes_of_row.others += others.filter_map(Codec::row_bytes).sum::<usize>() as u64;
        if !alike.is_empty() {
            bytes_of_row.others += row_bytes(catalog, &projection.only(&catalog.schema, &alike)?);
        }
        if !variable.is_empty() {
            let projection = projection.only(&catalog.schema, &variable)?;
            let lengths = catalog.groups.iter().map(|group| catalog.values_bytes(group, &projection));
            let (bytes, are_known) = lengths
                .fold((0u64, true), |sum, (bytes, known)| (sum.0.saturating_add(bytes), sum.1 && known));
            bytes_of_row.of_values = (bytes / catalog.rows().max(1)).max(1);
            let is_expanded = !bytes_of_row.expanded.is_empty() || !bytes_of_row.by_cell.is_empty();
            bytes_of_row.are_known = are_known && !is_expanded;
        }
        Ok(bytes_of_row)
    }

    /// The field of a column that exists in the data set and is read.
    pub(super) fn read_column<'a>(&self, read: &'a Schema, name: &str, argument: &str) -> Result<&'a Field> {
        if let Some((_, field)) = read.column_with_name(name) {
            return Ok(field);
        }
        if let Some(error) = self.names_a_view(argument, name).or_else(|| self.not_delivered(read, name)) {
            return Err(error);
        }
        self.dataset.catalog.column(name)?;
        let cause = format!("{argument} names column {name:?}, which is not among the columns to read");
        Err(Error::invalid(cause).hint("add it to `columns`"))
    }
}

/// The bytes that a row takes in a batch, as far as they are known before its cells are read.
#[derive(Debug, Default)]
pub(super) struct RowBytes {
    /// For each column that is read, whether it has only one value in each file.
    pub(super) keys: Vec<bool>,
    /// The indices of the columns whose values differ in length.
    pub(super) columns: Vec<usize>,
    /// The columns among `columns` in which each row takes as many bytes as the longest row of its batch.
    pub(super) to_longest: Vec<usize>,
    /// The columns among `columns` that deliver more values than are stored, as sparse vectors do.
    pub(super) expanded: Vec<usize>,
    /// The columns among `columns` in which the content of a cell determines the bytes of its row.
    pub(super) by_cell: Vec<(usize, Codec)>,
    /// The bytes of a row in all other columns.
    pub(super) others: u64,
    /// The average bytes of a row in `columns`, as the footers of the files give them.
    of_values: u64,
    /// Whether the footers give `of_values`. Some do not count repeated values, and none counts values that
    /// only delivery adds.
    pub(super) are_known: bool,
}

impl RowBytes {
    /// For each delivered column, whether it has only one value in each file.
    pub(super) fn keys(&self) -> impl Iterator<Item = bool> {
        self.keys.iter().copied().chain(repeat(false))
    }

    /// Whether `takes` is true for the types of all columns, except columns with only one value in each file.
    pub(super) fn all(&self, fields: &Fields, takes: fn(&DataType) -> bool) -> bool {
        fields.iter().zip(self.keys()).all(|(field, is_key)| is_key || takes(field.data_type()))
    }
}

/// The average bytes that a row takes in memory, in the columns of `projection`.
fn row_bytes(catalog: &Catalog, projection: &Projection) -> u64 {
    let held: u64 = catalog.groups.iter().map(|group| catalog.held_bytes(group, projection)).sum();
    (held / catalog.rows().max(1)).max(1)
}

/// Joins words for a sentence: "decode, encode or pad".
fn one_of(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        words => words.concat(),
    }
}

/// Whether the values of a column have a fixed width in whole bytes, so that a slice of the column can be
/// delivered as it is.
fn is_flat(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, _) => is_flat(item.data_type()),
        other => {
            other.primitive_width().is_some()
                || matches!(other, DataType::Boolean | DataType::FixedSizeBinary(_))
        }
    }
}

/// Makes the field of a column that an option of the same name adds after the others.
fn added_field(name: &str, data_type: DataType, others: &[FieldRef]) -> Result<FieldRef> {
    if others.iter().any(|field| field.name() == name) {
        return Err(Error::invalid(format!("{name} adds a column of this name, but there is one already"))
            .hint("give the other one a new name with `rename`, or leave it out of `columns`")
            .at(of_column(name)));
    }
    Ok(Arc::new(Field::new(name, data_type, false)))
}
