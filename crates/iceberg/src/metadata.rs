//! Parses the metadata of an Iceberg table: its schemas, its partition specs and its snapshots.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use forebay_base::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::location::Folders;
use crate::names::NameMapping;
use crate::schema::{self, TableColumn};

/// The versions of the format that this crate reads.
const VERSIONS: std::ops::RangeInclusive<i64> = 1..=3;

/// The first bytes of compressed metadata.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The most bytes of metadata that are decompressed.
const LARGEST: u64 = 1 << 30;

/// The table property with the names of columns, for files whose columns have no field ids.
const NAME_MAPPING: &str = "schema.name-mapping.default";

/// The field id of the first partition field, for tables of format version 1 that do not state it.
const FIRST_PARTITION_FIELD: i32 = 1_000;

/// The metadata of a table.
#[derive(Debug)]
pub struct Metadata {
    /// The version of the format.
    pub version: i64,
    /// The id of the table, which is the same in all of its snapshots; format version 1 may lack it.
    pub id: Option<String>,
    /// The folders in which the table was written, as the metadata names them.
    pub folders: Folders,
    /// The snapshots that the table keeps.
    pub snapshots: Vec<Snapshot>,
    /// The id of the current snapshot, if there is one.
    pub(crate) current: Option<i64>,
    pub(crate) current_schema: i64,
    pub(crate) schemas: BTreeMap<i64, Json>,
    pub(crate) references: BTreeMap<String, Reference>,
    /// The log of the snapshots that became current, with the times when they did.
    pub(crate) log: Vec<Logged>,
    pub(crate) mapping: NameMapping,
    /// Whether the table maps column names to fields, for files whose columns have no field ids.
    pub has_names: bool,
    specs: BTreeMap<i64, Vec<PartitionField>>,
    default_spec: i64,
}

/// A snapshot of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Snapshot {
    /// The id of the snapshot. Ids do not follow the order of snapshots.
    #[serde(rename = "snapshot-id")]
    pub id: i64,
    /// The time when the snapshot was made, in milliseconds since 1970.
    #[serde(rename = "timestamp-ms")]
    pub time: i64,
    /// The location of the list of manifests.
    pub manifest_list: Option<String>,
    /// The locations of the manifests, which a table of format version 1 may give instead of `manifest_list`.
    pub manifests: Option<Vec<String>>,
    /// The id of the schema that was current when the snapshot was made.
    pub(crate) schema_id: Option<i64>,
    /// The key with which the list of manifests is encrypted.
    pub(crate) key_id: Option<Json>,
}

/// A branch or a tag.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Reference {
    pub(crate) snapshot_id: i64,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// An entry of the log of current snapshots.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Logged {
    pub(crate) snapshot_id: i64,
    pub(crate) timestamp_ms: i64,
}

/// A field of a partition spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PartitionField {
    pub(crate) source_id: Option<i32>,
    /// The id of the partition field in manifests.
    pub(crate) field_id: Option<i32>,
    pub(crate) transform: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenMetadata {
    format_version: i64,
    table_uuid: Option<String>,
    location: String,
    schema: Option<Json>,
    #[serde(default)]
    schemas: Vec<Json>,
    current_schema_id: Option<i64>,
    partition_spec: Option<Vec<PartitionField>>,
    #[serde(default)]
    partition_specs: Vec<Spec>,
    default_spec_id: Option<i64>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
    current_snapshot_id: Option<i64>,
    #[serde(default)]
    snapshots: Vec<Snapshot>,
    #[serde(default)]
    snapshot_log: Vec<Logged>,
    #[serde(default)]
    refs: BTreeMap<String, Reference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Spec {
    spec_id: i64,
    fields: Vec<PartitionField>,
}

/// Only the version of the format. It is parsed first, so that an unsupported version is reported as such
/// even if nothing else can be parsed.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Version {
    format_version: i64,
}

impl Metadata {
    /// Parses the bytes of a metadata file, compressed or not.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not metadata, `Unsupported` for a later version of the format.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let plain;
        let text = match bytes.starts_with(GZIP) {
            true => {
                plain = decompressed(bytes)?;
                &plain
            }
            false => bytes,
        };
        let malformed = |error: serde_json::Error| malformed(&error.to_string());
        let Version { format_version } = serde_json::from_slice(text).map_err(malformed)?;
        if !VERSIONS.contains(&format_version) {
            let cause = format!("the table is of version {format_version} of Iceberg; 1, 2 and 3 are read");
            return Err(Error::new(ErrorKind::Unsupported, cause));
        }
        Metadata::from_written(serde_json::from_slice(text).map_err(malformed)?)
    }

    fn from_written(written: WrittenMetadata) -> Result<Self> {
        let mut schemas = BTreeMap::new();
        let number = |schema: &Json| schema.get("schema-id").and_then(Json::as_i64);
        for schema in written.schemas {
            let id = number(&schema).ok_or_else(|| malformed("a schema has no number"))?;
            schemas.insert(id, schema);
        }
        let mut current_schema = written.current_schema_id;
        // Older tables have a single schema.
        if let Some(schema) = written.schema.filter(|_| schemas.is_empty()) {
            let id = number(&schema).unwrap_or(0);
            current_schema = Some(id);
            schemas.insert(id, schema);
        }
        let specs: BTreeMap<_, _> = match (written.partition_specs.is_empty(), written.partition_spec) {
            (true, Some(fields)) => [(0, fields)].into(),
            _ => written.partition_specs.into_iter().map(|spec| (spec.spec_id, spec.fields)).collect(),
        };
        let mapping = written.properties.get(NAME_MAPPING);
        // A negative id means that the table has no current snapshot.
        let current = written.current_snapshot_id.filter(|id| *id >= 0);
        if let Some(snapshot) = written.snapshots.iter().find(|snapshot| snapshot.id < 0) {
            return Err(malformed(&format!("a snapshot has the number {}", snapshot.id)));
        }
        Ok(Metadata {
            version: written.format_version,
            id: written.table_uuid,
            folders: Folders::new(written.location, &written.properties),
            snapshots: written.snapshots,
            current,
            current_schema: current_schema.ok_or_else(|| malformed("it has no current schema"))?,
            schemas,
            references: written.refs,
            log: written.snapshot_log,
            has_names: mapping.is_some(),
            mapping: mapping.map(|text| NameMapping::parse(text)).transpose()?.unwrap_or_default(),
            default_spec: written.default_spec_id.unwrap_or(0),
            specs,
        })
    }

    /// The columns of the schema with the id `schema`.
    ///
    /// # Errors
    /// `Corrupt` for a malformed schema; `Unsupported`, with the column, for a type that is not read.
    pub fn columns(&self, schema: i64) -> Result<Vec<TableColumn>> {
        let json = self.schemas.get(&schema);
        schema::columns(json.ok_or_else(|| malformed(&format!("it has no schema {schema}")))?, &self.mapping)
    }

    /// The column with the field id `id`, in the current schema or else in the schema with the highest id
    /// that has it.
    pub(crate) fn column(&self, id: i32) -> Result<Option<TableColumn>> {
        let current = self.schemas.get(&self.current_schema);
        for schema in current.into_iter().chain(self.schemas.values().rev()) {
            if let Some(column) = schema::column(schema, id, &self.mapping)? {
                return Ok(Some(column));
            }
        }
        Ok(None)
    }

    /// The fields of the partition spec `id`, each with its field id in manifests.
    pub(crate) fn spec(&self, id: i64) -> Result<Vec<(i32, PartitionField)>> {
        let fields = self.specs.get(&id).ok_or_else(|| malformed(&format!("it has no partitions {id}")))?;
        let numbered = fields.iter().zip(FIRST_PARTITION_FIELD..);
        Ok(numbered.map(|(field, number)| (field.field_id.unwrap_or(number), field.clone())).collect())
    }

    /// The partition fields of a spec, as users write them. `None` means the spec that the table uses for new
    /// files.
    pub(crate) fn partitioned_by(&self, spec: Option<i64>) -> Vec<String> {
        let fields = self.specs.get(&spec.unwrap_or(self.default_spec)).into_iter().flatten();
        let shown = fields.filter(|field| !field.is_void()).map(|field| {
            let name = field.source_id.and_then(|id| Some(self.column(id).ok()??.name.name));
            let name = name.unwrap_or_else(|| "?".to_owned());
            match field.transform.as_str() {
                "identity" => name,
                other => format!("{other}({name})"),
            }
        });
        shown.collect()
    }
}

impl PartitionField {
    /// Whether the field was removed from the partition spec, which leaves a field with the transform `void`.
    pub(crate) fn is_void(&self) -> bool {
        self.transform == "void"
    }
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the metadata of the Iceberg table cannot be read: {why}"))
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(LARGEST).read_to_end(&mut plain);
    read.map(|_| plain).map_err(|error| malformed(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    fn first() -> Json {
        json!({"format-version": 1, "location": "s3://acme/t", "last-column-id": 1,
            "schema": {"type": "struct", "fields": [{"id": 1, "name": "day", "type": "date", "required": false}]},
            "partition-spec": [{"name": "day_month", "source-id": 1, "transform": "month"}],
            "current-snapshot-id": -1, "snapshots": []})
    }

    #[test]
    fn metadata_of_the_first_version_is_read_compressed_or_not() {
        let text = first().to_string();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        for bytes in [text.into_bytes(), gzip.finish().unwrap()] {
            let metadata = Metadata::parse(&bytes).unwrap();
            let fields = metadata.partitioned_by(None);
            assert_eq!((metadata.current, fields), (None, vec!["month(day)".to_owned()]));
            assert_eq!(metadata.spec(0).unwrap()[0].0, 1_000);
            assert_eq!(metadata.columns(metadata.current_schema).unwrap().len(), 1);
        }
    }

    #[test]
    fn later_versions_and_what_is_no_metadata_are_refused() {
        let refused = |json: &Json| Metadata::parse(json.to_string().as_bytes()).unwrap_err();
        let later = refused(&json!({"format-version": 4, "location": 7}));
        assert_eq!(later.kind(), ErrorKind::Unsupported);
        assert!(later.to_string().contains("version 4 of Iceberg"), "{later}");
        for (key, value) in [("location", json!(7)), ("schema", json!(null)), ("snapshots", json!([7]))] {
            let mut json = first();
            json[key] = value;
            assert_eq!(refused(&json).kind(), ErrorKind::Corrupt, "{key}");
        }
        assert_eq!(Metadata::parse(b"").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(Metadata::parse(GZIP).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
