//! The names of fields in files whose columns have no numbers.

use std::collections::HashMap;

use forebay_base::{Error, ErrorKind, Result};
use serde::Deserialize;

/// The name of a table's field, with the number and the names that identify it in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// The name of the field in the table.
    pub name: String,
    /// The number of the field in files.
    pub id: i32,
    /// The names of the field in files without numbers; empty if the table gives none.
    pub stored: Vec<String>,
    /// The fields inside: those of a structure, the item of a list, or the key and the value of a map.
    pub inner: Vec<FieldName>,
}

/// The names that a table gives to its fields in files without numbers.
#[derive(Debug, Default)]
pub(crate) struct NameMapping(HashMap<i32, Vec<String>>);

impl NameMapping {
    /// Parses the value of the table's property with the names.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let fields: Vec<Mapped> = serde_json::from_str(text).map_err(|error| {
            let cause = format!("the mapping of names of the table cannot be read: {error}");
            Error::new(ErrorKind::Corrupt, cause)
        })?;
        let mut mapping = NameMapping::default();
        fields.into_iter().for_each(|field| mapping.add(field));
        Ok(mapping)
    }

    /// The names of the field with this number.
    pub(crate) fn names_of(&self, id: i32) -> Vec<String> {
        self.0.get(&id).cloned().unwrap_or_default()
    }

    fn add(&mut self, field: Mapped) {
        if let Some(id) = field.field_id {
            self.0.insert(id, field.names);
        }
        field.fields.into_iter().for_each(|field| self.add(field));
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mapped {
    field_id: Option<i32>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    fields: Vec<Mapped>,
}
