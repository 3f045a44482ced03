//! The schema that Petastorm wrote beside the files. A loader decodes columns as this schema says.

use std::fmt;

use forebay::petastorm::{Codec, Unischema};
use forebay_base::error::escaped;
use serde::Serialize;

/// The schema that Petastorm wrote for a data set.
#[derive(Serialize)]
pub(super) struct SchemaReport {
    name: String,
    fields: Vec<Field>,
}

/// A field of the schema.
#[derive(Serialize)]
struct Field {
    name: String,
    dtype: String,
    shape: Vec<Option<u64>>,
    codec: Option<String>,
    nullable: bool,
}

impl SchemaReport {
    pub(super) fn describe(schema: &Unischema) -> Self {
        let fields = schema.fields.iter().map(|field| Field {
            name: field.name.clone(),
            dtype: field.dtype.to_string(),
            shape: field.shape.clone(),
            codec: field.codec.as_ref().map(Codec::to_string),
            nullable: field.nullable,
        });
        SchemaReport { name: schema.name.clone(), fields: fields.collect() }
    }
}

impl Field {
    /// The type and shape of the field, such as "float32[None, 4]".
    fn kind(&self) -> String {
        let side = |side: &Option<u64>| side.map_or_else(|| "None".to_owned(), |side| side.to_string());
        match &self.shape[..] {
            [] => self.dtype.clone(),
            sides => format!("{}[{}]", self.dtype, sides.iter().map(side).collect::<Vec<_>>().join(", ")),
        }
    }
}

impl fmt::Display for SchemaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Schema of Petastorm \"{}\", by which a loader decodes the columns",
            escaped(&self.name)
        )?;
        let rows: Vec<_> = self.fields.iter().map(|field| (escaped(&field.name), field.kind())).collect();
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let kinds = rows.iter().map(|(_, kind)| kind.chars().count()).max().unwrap_or(0);
        for (field, (name, kind)) in self.fields.iter().zip(&rows) {
            let codec = field.codec.as_deref().map_or_else(|| "as stored".into(), escaped);
            let null = if field.nullable { ", nullable" } else { "" };
            writeln!(f, "{name:<width$}  {kind:<kinds$}  {codec}{null}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use forebay::petastorm::{Dtype, Field as Declared};

    use super::*;

    #[test]
    fn each_field_is_a_line_with_its_codec() {
        let field = |name: &str, shape: &[Option<u64>], codec, nullable| Declared {
            name: name.to_owned(),
            dtype: Dtype::Float32,
            shape: shape.to_vec(),
            codec,
            nullable,
        };
        let schema = Unischema {
            name: "Photos".to_owned(),
            fields: vec![
                field("boxes", &[None, Some(4)], Some(Codec::Ndarray), true),
                field("x\u{1b}", &[], None, false),
            ],
        };
        assert_eq!(
            SchemaReport::describe(&schema).to_string(),
            "Schema of Petastorm \"Photos\", by which a loader decodes the columns\n\
             boxes    float32[None, 4]  NdarrayCodec(), nullable\n\
             x\\u{1b}  float32           as stored\n"
        );
    }
}
