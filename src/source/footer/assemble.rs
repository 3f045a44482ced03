//! From footers to a catalogue: the columns that all files have, and where each file has them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use parquet::file::metadata::ParquetMetaData;

use super::{ARROW_SCHEMA, Footer};
use crate::catalog::{Catalog, File, FileColumns, same_type, unify};
use crate::error::{Error, ErrorKind, Result};
use crate::snapshot::DataFile;

/// Puts the files into a catalogue. Fails with `Unsupported` where their columns differ.
pub(in crate::source) fn assemble(footers: Vec<Footer>, identities: &[Arc<str>]) -> Result<Catalog> {
    let mut delivered = DeliveredColumns::default();
    let schemas = footers.iter().map(|footer| Ok((footer.file.shown.clone(), delivered.of(footer)?)));
    let schemas: Vec<_> = schemas.collect::<Result<_>>()?;
    let common = unify(&schemas)?;
    let key_values = footers.first().and_then(|footer| footer.key_values.clone()).unwrap_or_default();
    let pairs = key_values.into_iter().filter(|pair| pair.key != ARROW_SCHEMA);
    let pairs: HashMap<_, _> = pairs.filter_map(|pair| Some((pair.key, pair.value?))).collect();
    let common = Arc::new(Schema::new_with_metadata(common.fields().clone(), pairs));

    let mut placed: HashMap<SharedBy, Arc<FileColumns>> = HashMap::new();
    let mut files = Vec::with_capacity(footers.len());
    for (footer, (location, _)) in footers.into_iter().zip(schemas) {
        let Footer { file, hash, metadata, columns, .. } = footer;
        let columns = match placed.entry(shared_by(&columns, &file)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                new.insert(Arc::new(columns.for_catalog(&common, &file.constants)?)).clone()
            }
        };
        check_declared(&file, &metadata)?;
        let table_hash = file.table_hash();
        files.push(File {
            location,
            relative: file.relative.into(),
            volume: file.volume as u32,
            path: file.pin.path,
            size: file.pin.size,
            version: file.pin.version,
            footer_hash: hash,
            metadata: Arc::new(metadata),
            columns,
            constants: file.constants,
            deleted: file.deleted,
            table_hash,
        });
    }
    Catalog::new(files, common, identities)
}

/// Holds what a snapshot says of a file's rows against its footer.
fn check_declared(file: &DataFile, metadata: &ParquetMetaData) -> Result<()> {
    let counts = || metadata.row_groups().iter().map(|group| group.num_rows().max(0).cast_unsigned());
    let corrupt = |cause: String| Err(Error::new(ErrorKind::Corrupt, cause).at(file.place()));
    if let Some(declared) = file.row_counts.as_ref().filter(|declared| !counts().eq(declared.iter().copied()))
    {
        let (declared, rows): (u64, u64) = (declared.iter().sum(), counts().sum());
        return corrupt(format!(
            "the table declares {declared} rows in other row groups than the {rows} of the file"
        ));
    }
    let rows = counts().fold(0, u64::saturating_add);
    let beyond = file
        .deleted
        .as_ref()
        .filter(|deleted| deleted.rank(u32::try_from(rows).unwrap_or(u32::MAX)) < deleted.count());
    match beyond {
        Some(_) => corrupt(format!("the table deletes rows beyond the {rows} of the file")),
        None => Ok(()),
    }
}

/// Files that agree in this have the same columns: what is stored, the constants, and the declared fields.
type SharedBy = (*const FileColumns, Vec<String>, Option<*const Schema>);

fn shared_by(columns: &Arc<FileColumns>, file: &DataFile) -> SharedBy {
    let constants = file.constants.iter().map(|constant| constant.field.to_string());
    (Arc::as_ptr(columns), constants.collect(), file.schema.as_ref().map(Arc::as_ptr))
}

/// The columns of files as they are delivered: those that are stored, and constants in their place or behind them; or those
/// that are declared, of these.
#[derive(Default)]
struct DeliveredColumns {
    known: HashMap<SharedBy, SchemaRef>,
}

impl DeliveredColumns {
    fn of(&mut self, footer: &Footer) -> Result<SchemaRef> {
        let Footer { file, columns, .. } = footer;
        let stored = &columns.schema;
        if file.constants.is_empty() && file.schema.is_none() {
            return Ok(stored.clone());
        }
        let key = shared_by(columns, file);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let constant = |name: &str| file.constants.iter().find(|constant| constant.field.name() == name);
        let or_constant = |field: &FieldRef| constant(field.name()).map_or(field, |it| &it.field).clone();
        let mut fields: Vec<FieldRef> = stored.fields().iter().map(or_constant).collect();
        let behind = file.constants.iter().map(|constant| &constant.field);
        fields.extend(behind.filter(|field| stored.column_with_name(field.name()).is_none()).cloned());
        if let Some(declared) = &file.schema {
            let of = |field: &FieldRef| {
                let have = fields.iter().find(|have| have.name() == field.name());
                match have.filter(|have| same_type(have.data_type(), field.data_type())) {
                    Some(have) => Ok(have.clone()),
                    None => {
                        let got =
                            have.map_or("no such column".to_string(), |have| have.data_type().to_string());
                        let cause = format!("the table declares {}, the file has {got}", field.data_type());
                        let place = file.place().column(field.name().as_str());
                        Err(Error::new(ErrorKind::Unsupported, cause).at(place))
                    }
                }
            };
            fields = declared.fields().iter().map(of).collect::<Result<_>>()?;
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
        self.known.insert(key, schema.clone());
        Ok(schema)
    }
}
