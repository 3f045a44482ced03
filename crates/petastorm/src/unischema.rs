//! A schema, and its fields.

use crate::codec::Codec;
use crate::dtype::Dtype;

/// The schema of a Petastorm data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unischema {
    /// Its name.
    pub name: String,
    /// Its fields, in its own order; no two have the same name.
    pub fields: Vec<Field>,
}

/// A field of a schema: a column of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, which is that of the column or of the partition's key.
    pub name: String,
    /// The type of its values once they are decoded.
    pub dtype: Dtype,
    /// The length of each dimension, `None` where it differs from row to row. A scalar has none.
    pub shape: Vec<Option<u64>>,
    /// How its values are stored; `None` as Parquet has them.
    pub codec: Option<Codec>,
    /// Whether a row may be without a value.
    pub nullable: bool,
}

impl Unischema {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}
