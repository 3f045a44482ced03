//! The names by which fields are found in files whose columns have no field ids.

use std::collections::HashMap;

use forebay_base::{Error, ErrorKind, Result};
use serde::Deserialize;

/// The name of a table's field, with the field id and the names by which the field is found in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// The name of the field in the table.
    pub name: String,
    /// The id of the field in the files.
    pub id: i32,
    /// The names of the field in files without field ids; empty if the table gives none.
    pub stored: Vec<String>,
    /// The fields inside this one: those of a struct, the item of a list, or the key and the value of a map.
    pub inner: Vec<FieldName>,
}

/// For each field id, the names that the table maps to it, for files without field ids.
#[derive(Debug, Default)]
pub(crate) struct NameMapping(HashMap<i32, Vec<String>>);

impl NameMapping {
    /// Parses the value of the table property `schema.name-mapping.default`, which is JSON.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let fields: Vec<Mapped> = serde_json::from_str(text).map_err(|error| {
            let cause = format!("the mapping of names of the table cannot be read: {error}");
            Error::new(ErrorKind::Corrupt, cause)
        })?;
        let mut mapping = NameMapping::default();
        fields.into_iter().for_each(|field| mapping.add(field));
        Ok(mapping)
    }

    /// The names that the table maps to the field `id`.
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
