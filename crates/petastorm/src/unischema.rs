//! The schema of a Petastorm data set and its fields.

use crate::codec::Codec;
use crate::dtype::Dtype;

/// The schema of a Petastorm data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unischema {
    /// The name of the schema.
    pub name: String,
    /// The fields in the schema's own order. No two fields have the same name.
    pub fields: Vec<Field>,
}

/// A field of a schema, which describes a column of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name of the field, which is also the name of its column or partition key.
    pub name: String,
    /// The numpy type of the values once they are decoded.
    pub dtype: Dtype,
    /// The length of each dimension; `None` if it differs from row to row. Empty for a scalar.
    pub shape: Vec<Option<u64>>,
    /// How the values are stored; `None` if Parquet stores them unchanged.
    pub codec: Option<Codec>,
    /// Whether a row may be without a value.
    pub nullable: bool,
}

impl Unischema {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}
