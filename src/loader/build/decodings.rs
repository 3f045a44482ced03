//! Columns that are decoded as a Petastorm schema beside the files says: their names, the fields that options
//! see, and the codecs that first convert arrays in cells to lists.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef, Schema};
use forebay_base::{Place, Result};
use forebay_store::source::Store;

use super::LoaderBuilder;
use super::places::of_column;
use super::vectors::listed_schema;
use crate::batch::Fill;
use crate::column::{Arrays, ArraysCodec, Codec, Column, ColumnSpec, Decoding, NullOptions};
use crate::loader::threads::IoRuntime;

/// The hint for a data set whose schema beside the files cannot be read.
const WITHOUT_SCHEMA_HINT: &str = "to read without the schema, give `decode={\"*\": None}`";

impl LoaderBuilder {
    /// Adds the decodings that Petastorm's schema gives for columns that are read and about which the user
    /// says nothing. The schema is read only if there is such a column.
    pub(super) fn decoded_by_schema(mut self, io: &IoRuntime, store: &Store) -> Result<Self> {
        if self.plan_only || !store.has_common_metadata() {
            return Ok(self);
        }
        let projection = self.projection()?;
        let catalog = self.dataset.catalog.clone();
        let open = projection.stored_names(&catalog.schema).filter(|(name, _)| !self.is_decided(name));
        let open: Vec<(&str, &str)> = open.collect();
        if open.is_empty() {
            return Ok(self);
        }
        let schema = self
            .dataset
            .petastorm_schema_of(io, store)
            .map_err(|error| error.hint_also(WITHOUT_SCHEMA_HINT))?;
        let Some(schema) = schema else { return Ok(self) };
        let mut decodings = Vec::new();
        for (name, stored) in open {
            let Some(declared) = schema.field(stored) else { continue };
            let field = catalog.schema.field_with_name(stored).ok();
            let given = self.spec.by_column.get(name).cloned().unwrap_or_default();
            let decoding = field.map(|field| Decoding::for_field(declared, field, &given)).transpose();
            let decoding = decoding.map_err(|error| error.at(of_column(name)))?.flatten();
            decodings.extend(decoding.map(|decoding| (name.to_owned(), decoding)));
        }
        for (name, decoding) in &decodings {
            if let Decoding::Cast(to) = decoding {
                self.spec.column(name.as_str()).cast = Some(to.clone());
            }
        }
        self.decodings = decodings.into_iter().collect();
        Ok(self)
    }

    /// Whether the user says how to decode a column.
    fn is_decided(&self, name: &str) -> bool {
        let given = self.spec.by_column.get(name).map(ColumnSpec::given).unwrap_or_default();
        given.iter().any(|given| given.keyword == "decode")
            || self.decoders.iter().any(|(decoded, _)| decoded == name)
            || self.goes_along(name)
    }

    /// The arrays in the cells of a column, which become lists before anything else is done with the column.
    /// `None` for other columns.
    pub(super) fn arrays(&self, name: &str) -> Option<&Arrays> {
        self.decodings.get(name)?.arrays()
    }

    /// The schema that all options see, in which vectors and arrays in cells are lists.
    pub(super) fn with_lists(&self, stored: &Schema) -> Result<Schema> {
        let listed = listed_schema(stored);
        let fields = listed.fields().iter().map(|field| match self.arrays(field.name()) {
            Some(arrays) => {
                arrays.field(field).map(Arc::new).map_err(|error| error.at(of_column(field.name())))
            }
            None => Ok(field.clone()),
        });
        let fields = fields.collect::<Result<Vec<FieldRef>>>()?;
        Ok(Schema::new_with_metadata(fields, listed.metadata().clone()))
    }

    /// Makes the columns that are delivered as Petastorm's schema says, except those in `asked`, for which an
    /// option was given.
    pub(super) fn delivered_by_schema<'a>(
        &'a self,
        read: &Schema,
        asked: &HashMap<&str, Column>,
        nulls: impl Fn(&str) -> NullOptions<'a>,
    ) -> Result<Vec<(&'a str, Column)>> {
        let open = self.decodings.iter().filter(|(name, _)| !asked.contains_key(name.as_str()));
        let columns = open.filter_map(|(name, decoding)| {
            let field = read.field_with_name(name).ok()?;
            let column = decoding.column(field, nulls(name)).map_err(|error| error.at(of_column(name)));
            Some((name.as_str(), column.transpose()?))
        });
        columns.map(|(name, column)| Ok((name, column?))).collect()
    }

    /// Puts the conversion of arrays in cells to lists before the codec of a column, if its cells hold
    /// arrays.
    pub(super) fn after_arrays(&self, column: Column, stored: &Field) -> Result<Column> {
        let Some(arrays) = self.arrays(stored.name()) else { return Ok(column) };
        let place: Place = of_column(stored.name());
        let codec =
            ArraysCodec::new(arrays.clone(), column.codec).map_err(|error| error.at(place.clone()))?;
        Column::gathered(codec, stored).map_err(|error| error.at(place))
    }

    /// If the cells of a padded column hold arrays, the codec of its `mask` first converts them to lists.
    pub(super) fn mask_of_arrays(&self, mask: Column, stored: &Field) -> Column {
        match (mask, self.arrays(stored.name())) {
            (Column { codec: Codec::GatherOf(column, inner), field }, Some(arrays)) => {
                let codec = ArraysCodec::of_mask(arrays.clone(), inner);
                Column { codec: Codec::GatherOf(column, Arc::new(codec)), field }
            }
            (mask, _) => mask,
        }
    }

    /// The fill for arrays in cells whose nulls are masked. A null becomes an empty list, so any value of the
    /// right type serves.
    pub(super) fn fill_of_arrays(&self, field: &Field) -> Option<Fill> {
        self.arrays(field.name())?;
        let DataType::LargeList(item) = field.data_type() else { return None };
        let mut values = item.data_type();
        while let DataType::LargeList(item) | DataType::FixedSizeList(item, _) = values {
            values = item.data_type();
        }
        Some(match values {
            DataType::Utf8View => Fill::from(""),
            DataType::BinaryView => Fill::from(Vec::new()),
            _ => Fill::from(0.0),
        })
    }
}
