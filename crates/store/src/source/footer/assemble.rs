//! Makes a catalogue from the footers of all files: it finds the common columns, and where each file has
//! them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use forebay_arrow::array::new_null_array;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use forebay_arrow::evolve::reads_as;
use forebay_arrow::names::told_apart;
use forebay_arrow::nested::with_fields;
use forebay_base::{Error, ErrorKind, Place, Result};
use parquet::file::metadata::KeyValue;

use super::parse::Parsed;
use crate::catalog::{
    ARROW_SCHEMA, Catalog, ClassNames, Declared, DeclaredClasses, Differences, File, FileColumns, Footer,
    KnownColumns, Refusals, SharedBy, Unified, unify,
};
use crate::row_set::RowSet;
use crate::snapshot::{Constant, DataFile};
use crate::source::list::{KeyTypes, settle};

/// A file and its footer; `None` if the footer will be read later.
pub(in crate::source) struct Opened {
    pub(super) file: DataFile,
    pub(super) footer: Option<Footer>,
    /// The key-value metadata of the footer; only the first file of a data set has them here.
    pub(super) key_values: Option<Vec<KeyValue>>,
    /// The names of classes that the footer declares.
    pub(super) classes: Option<Arc<DeclaredClasses>>,
}

/// Makes a catalogue of the files. It refuses columns that differ among files, or that cannot be read
/// in some file. If there are no files, its columns are those of the table, `of_table`.
pub(in crate::source) fn assemble(
    mut opened: Vec<Opened>,
    known: Arc<KnownColumns>,
    identities: &[Arc<str>],
    differences: Differences,
    types: &KeyTypes,
    of_table: Option<SchemaRef>,
) -> Result<Catalog> {
    let stored = opened.iter().find_map(|opened| Some(opened.footer.as_ref()?.columns.schema.clone()));
    settle(opened.iter_mut().map(|opened| &mut opened.file), types, |key| {
        stored.as_ref().is_some_and(|stored| stored.column_with_name(key).is_some())
    })?;
    settle_defaults(&mut opened);
    let refused = refusals(&opened);
    let mut delivered = DeliveredColumns::default();
    let schemas = opened.iter().map(|opened| Ok((opened.file.shown.clone(), delivered.schema_of(opened)?)));
    let schemas: Vec<_> = schemas.collect::<Result<_>>()?;
    let Unified { schema: common, refused } = match (schemas.is_empty(), of_table) {
        (true, Some(schema)) => Unified { schema, refused },
        _ => {
            let decides = deciding(&opened);
            let schemas = schemas.iter().zip(&decides).filter(|(_, decides)| **decides);
            unify(&schemas.map(|(schema, _)| schema.clone()).collect::<Vec<_>>(), differences, refused)
        }
    };
    let key_values = opened.first().and_then(|opened| opened.key_values.clone()).unwrap_or_default();
    let pairs = key_values.into_iter().filter(|pair| pair.key != ARROW_SCHEMA);
    let pairs: HashMap<_, _> = pairs.filter_map(|pair| Some((pair.key, pair.value?))).collect();
    let common = Arc::new(Schema::new_with_metadata(common.fields().clone(), pairs));

    let classes = Arc::new(class_names(&opened));

    let mut absent = AbsentColumns::default();
    let mut files = Vec::with_capacity(opened.len());
    for (Opened { mut file, footer, .. }, (_, schema)) in opened.into_iter().zip(schemas) {
        let listed_constants = file.constants.len() as u32;
        if differences == Differences::Merged {
            file.constants = absent.beside(&file.constants, &schema, &common);
        }
        let of_footer = footer.as_ref().map(Footer::rows);
        let rows = of_footer.or(file.rows).unwrap_or(0);
        check_rows(rows, file.rows, file.deleted.as_ref()).map_err(|error| error.at(file.place()))?;
        let footer = footer.map(|footer| {
            let key = shared_by(Some(&footer.columns), &file.constants, file.schema.as_ref());
            let place = || Ok(footer.columns.for_catalog(&common, &file.constants));
            let columns = known.in_catalog(key, file.schema.as_ref(), place)?;
            Ok(footer.with_columns(columns))
        });
        let table_hash = file.table_hash();
        let declared = file.rows.zip(file.schema.clone()).filter(|_| file.is_declared());
        let declared = declared.map(|(rows, schema)| Declared { rows, schema });
        files.push(File {
            location: file.shown,
            relative: file.relative.into(),
            volume: file.volume as u32,
            path: file.pin.path,
            size: file.pin.size,
            version: file.pin.version,
            footer: footer.transpose()?.map_or_else(OnceLock::new, OnceLock::from),
            declared,
            names: file.names,
            constants: file.constants,
            listed_constants,
            statistics: file.statistics,
            tracked: file.tracked,
            deleted: file.deleted,
            table_hash,
        });
    }
    let unified = Unified { schema: common, refused };
    let mut catalog = Catalog::new(files, unified, known, identities.into())?;
    catalog.classes = classes;
    Ok(catalog)
}

/// For each file, whether it decides the columns and their classes: the files with rows do, or all files if
/// none has rows. A file without rows has no value that could be of another type.
fn deciding(opened: &[Opened]) -> Vec<bool> {
    let rows = |opened: &Opened| opened.footer.as_ref().map(Footer::rows).or(opened.file.rows);
    let has_rows: Vec<bool> = opened.iter().map(|opened| rows(opened) != Some(0)).collect();
    if has_rows.contains(&true) { has_rows } else { vec![true; opened.len()] }
}

/// The names of classes that all files declare together.
fn class_names(opened: &[Opened]) -> ClassNames {
    let mut names = ClassNames::default();
    let mut last: Option<&Arc<DeclaredClasses>> = None;
    let deciding = opened.iter().zip(deciding(opened)).filter(|(_, decides)| *decides);
    for (Opened { file, classes, .. }, _) in deciding {
        let Some(classes) = classes else { continue };
        if !last.is_some_and(|last| Arc::ptr_eq(last, classes)) {
            names.add(&file.shown, classes);
        }
        last = Some(classes);
    }
    names
}

/// If a file lacks columns for which the table has default values, adds these values to the file as
/// constants. Files that lack the same columns share the constants.
fn settle_defaults(opened: &mut [Opened]) {
    let mut known: HashMap<_, Constants> = HashMap::new();
    for Opened { file, footer, .. } in opened.iter_mut().filter(|opened| !opened.file.defaults.is_empty()) {
        let Some(columns) = footer.as_ref().map(|footer| &footer.columns) else { continue };
        let address = |constants: &Constants| Arc::as_ptr(constants).cast::<Constant>().addr();
        let key = (Arc::as_ptr(columns).addr(), address(&file.constants), address(&file.defaults));
        let settled = known.entry(key).or_insert_with(|| {
            let is_constant = |name: &str| file.constants.iter().any(|it| it.field.name() == name);
            let is_lacking = |default: &&Constant| {
                let name = default.field.name();
                columns.schema.column_with_name(name).is_none() && !is_constant(name)
            };
            file.constants.iter().chain(file.defaults.iter().filter(is_lacking)).cloned().collect()
        });
        file.constants = settled.clone();
    }
}

/// The columns that some file cannot give, each with the error of the first such file.
fn refusals(opened: &[Opened]) -> Refusals {
    let mut refused = Refusals::new();
    let mut last: Option<&Arc<FileColumns>> = None;
    for Opened { file, footer, .. } in opened {
        let Some(columns) = footer.as_ref().map(|footer| &footer.columns) else { continue };
        if last.is_some_and(|last| Arc::ptr_eq(last, columns)) {
            continue;
        }
        last = Some(columns);
        for (name, error) in &*columns.refused {
            let place = || file.place().column(name.as_str());
            refused.entry(name.clone()).or_insert_with(|| error.clone().at(place()));
        }
    }
    refuse_keys(opened, &mut refused);
    refused
}

/// Refuses a key in the names of folders (`key=value`) if some files have a column of that name and others do
/// not.
fn refuse_keys(opened: &[Opened], refused: &mut Refusals) {
    let mut checked: Option<(&SchemaRef, &Constants)> = None;
    for Opened { file, footer, .. } in opened.iter().filter(|opened| !opened.file.keys.is_empty()) {
        let Some(stored) = footer.as_ref().map(|footer| &footer.columns.schema) else { continue };
        let is_next = |(schema, constants): (&SchemaRef, &Constants)| {
            Arc::ptr_eq(schema, stored) && Arc::ptr_eq(constants, &file.constants)
        };
        if checked.is_some_and(is_next) {
            continue;
        }
        checked = Some((stored, &file.constants));
        let is_stored = |name: &str| stored.column_with_name(name).is_some();
        let is_constant = |name: &str| file.constants.iter().any(|constant| constant.field.name() == name);
        let in_doubt = file.keys.iter().filter(|key| is_stored(&key.name) == is_constant(&key.name));
        for key in in_doubt {
            let cause = match is_stored(&key.name) {
                true => "a key of its folder that the file stores, and files before it do not",
                false => "a key of its folder that the file does not store, and files before it do",
            };
            refused.entry(key.name.clone()).or_insert_with(|| {
                Error::new(ErrorKind::Unsupported, cause).at(file.place().column(key.name.as_str())).hint(
                    "choose other columns with `columns`, write the column to all files or to none, or open the files \
                     that agree",
                )
            });
        }
    }
}

/// Adds a footer that was read late to its file in the catalogue. Fails if it contradicts the rows and
/// columns that the metadata of the table declares.
pub(super) fn admit(catalog: &Catalog, file: &File, parsed: &Parsed) -> Result<()> {
    let Parsed { hash, metadata, columns } = parsed;
    let declared = file.declared.as_ref();
    let schema = declared.map(|declared| &declared.schema);
    let rows = declared.map(|declared| declared.rows);
    let place = || Place::file(file.location.clone());
    let key = shared_by(Some(columns), &file.constants, schema);
    let columns = catalog.known.in_catalog(key, schema, || {
        stored_and_constant(&columns.schema, &file.constants, schema, place)?;
        Ok(columns.for_catalog(&catalog.schema, &file.constants))
    })?;
    let footer = Footer::new(*hash, columns, metadata)?;
    check_rows(footer.rows(), rows, file.deleted.as_ref()).map_err(|error| error.at(place()))?;
    // Another task may have set the footer first.
    drop(file.footer.set(footer));
    Ok(())
}

/// Checks that a file has the number of rows that its table declares, and that the rows that the table
/// deletes are all within the file.
fn check_rows(rows: u64, declared: Option<u64>, deleted: Option<&RowSet>) -> Result<()> {
    let corrupt = |cause: String| Err(Error::new(ErrorKind::Corrupt, cause));
    if let Some(declared) = declared.filter(|declared| *declared != rows) {
        return corrupt(format!("the table declares {declared} rows, the file has {rows}"));
    }
    let beyond =
        deleted.filter(|deleted| deleted.rank(u32::try_from(rows).unwrap_or(u32::MAX)) < deleted.count());
    match beyond {
        Some(_) => corrupt(format!("the table deletes rows beyond the {rows} of the file")),
        None => Ok(()),
    }
}

fn shared_by(
    columns: Option<&Arc<FileColumns>>,
    constants: &[Constant],
    declared: Option<&SchemaRef>,
) -> SharedBy {
    let constants = constants.iter().map(|constant| constant.field.to_string());
    let columns = columns.map(|columns| Arc::as_ptr(columns).addr());
    (columns, declared.map(|schema| Arc::as_ptr(schema).addr()), constants.collect())
}

/// Adds null constants for the columns that files lack. Files that lack the same columns share them.
#[derive(Default)]
struct AbsentColumns {
    /// The resulting constants, by the memory addresses of a file's schema and of its own constants. Both are
    /// kept alive here, so that nothing else can get the same addresses.
    known: HashMap<(usize, usize), (SchemaRef, Constants, Constants)>,
}

type Constants = Arc<[Constant]>;

impl AbsentColumns {
    /// Returns `constants`, and a null constant for each column of `common` that is not in `schema`.
    fn beside(
        &mut self,
        constants: &Arc<[Constant]>,
        schema: &SchemaRef,
        common: &Schema,
    ) -> Arc<[Constant]> {
        let key = (Arc::as_ptr(schema).addr(), Arc::as_ptr(constants).cast::<Constant>().addr());
        let (.., all) = self.known.entry(key).or_insert_with(|| {
            let absent =
                common.fields().iter().filter(|field| schema.column_with_name(field.name()).is_none());
            let null = |field: &FieldRef| Constant {
                field: field.clone(),
                value: new_null_array(field.data_type(), 1),
            };
            let all = constants.iter().cloned().chain(absent.map(null)).collect();
            (schema.clone(), constants.clone(), all)
        });
        all.clone()
    }
}

/// The schemas in which files deliver their columns, computed once for files with the same columns.
#[derive(Default)]
struct DeliveredColumns {
    known: HashMap<SharedBy, SchemaRef>,
}

impl DeliveredColumns {
    fn schema_of(&mut self, opened: &Opened) -> Result<SchemaRef> {
        let DataFile { constants, schema: declared, .. } = &opened.file;
        let columns = opened.footer.as_ref().map(|footer| &footer.columns);
        if let Some(columns) = columns.filter(|_| constants.is_empty() && declared.is_none()) {
            return Ok(columns.schema.clone());
        }
        let key = shared_by(columns, constants, declared.as_ref());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let schema = Arc::new(match (columns, declared) {
            (Some(columns), _) => {
                let place = || opened.file.place();
                let stored = &columns.schema;
                let fields = stored_and_constant(stored, constants, declared.as_ref(), place)?;
                Schema::new_with_metadata(fields, stored.metadata().clone())
            }
            (None, Some(declared)) => {
                let nullable = |field: &FieldRef| Arc::new(nullable(field));
                let stored = Schema::new(declared.fields().iter().map(nullable).collect::<Fields>());
                let place = || opened.file.place();
                Schema::new(stored_and_constant(&stored, constants, Some(declared), place)?)
            }
            (None, None) => Schema::empty(),
        });
        self.known.insert(key, schema.clone());
        Ok(schema)
    }
}

/// The columns that a file delivers: first the stored columns, and then the constants. A constant takes the
/// place of a stored column with the same name. With a declared schema, the file delivers the columns of that
/// schema instead; the file's own columns must have types that can be read as the declared ones.
fn stored_and_constant(
    stored: &Schema,
    constants: &[Constant],
    declared: Option<&SchemaRef>,
    place: impl Fn() -> Place,
) -> Result<Vec<FieldRef>> {
    let constant = |name: &str| constants.iter().find(|constant| constant.field.name() == name);
    let or_constant = |field: &FieldRef| constant(field.name()).map_or(field, |it| &it.field).clone();
    let mut fields: Vec<FieldRef> = stored.fields().iter().map(or_constant).collect();
    let behind = constants.iter().map(|constant| &constant.field);
    fields.extend(behind.filter(|field| stored.column_with_name(field.name()).is_none()).cloned());
    let Some(declared) = declared else { return Ok(fields) };
    let of = |field: &FieldRef| {
        let have = fields.iter().find(|have| have.name() == field.name());
        match have.filter(|have| !reads_as(have.data_type(), field.data_type())) {
            None => Ok(field.clone()),
            Some(have) => {
                let (declared, got) = told_apart(field.data_type(), have.data_type());
                let cause = format!("the table declares {declared}, the file has {got}");
                Err(Error::new(ErrorKind::Unsupported, cause).at(place().column(field.name().as_str())))
            }
        }
    };
    declared.fields().iter().map(of).collect()
}

/// Makes the values in the entries of a map nullable, but not the keys.
fn nullable_values(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(members) = entries.data_type() else { return entries.clone() };
    let members = members.iter().enumerate().map(|(at, member)| match at {
        0 => member.clone(),
        _ => Arc::new(nullable(member)),
    });
    Arc::new(entries.as_ref().clone().with_data_type(DataType::Struct(members.collect())))
}

/// Makes a field and all fields inside it nullable, because the file has not been read, and may
/// have nulls in any of them.
fn nullable(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Map(entries, sorted) => DataType::Map(nullable_values(entries), *sorted),
        other => with_fields(other, nullable),
    };
    field.clone().with_data_type(data_type).with_nullable(true)
}
