//! Reads the schema that Petastorm stores in a file `_common_metadata` beside the files of a data set.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_petastorm::{UNISCHEMA_KEY, Unischema};
use forebay_store::source::{Store, StoredValue, common_values};

use super::dataset::{Dataset, Locations};
use super::threads::IoRuntime;

/// Reads the schema of a Petastorm data set; `None` if there is none. It is stored in a file
/// `_common_metadata`, in the folder that `locations` names, in the folder where a glob begins, or in the
/// folder that all named files share. The footers of the data files are not read. `options` are those of
/// [`Dataset::open_with_options`](crate::Dataset::open_with_options).
///
/// ```no_run
/// use std::collections::BTreeMap;
///
/// use forebay::petastorm::{Codec, schema};
///
/// let schema = schema("s3://acme/photos/", &BTreeMap::new())?.expect("Petastorm wrote it");
/// for field in &schema.fields {
///     let codec = field.codec.as_ref().map(Codec::to_string);
///     println!("{}: {} {:?}, {codec:?}", field.name, field.dtype, field.shape);
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// `NotFound` if no file matches the locations. `Corrupt` if `_common_metadata` is damaged, or if its value
/// is not a schema. `Unsupported` if the schema, which is pickled, refers to anything but the parts of
/// schemas, or if two folders have different schemas. The error names the file.
pub fn petastorm_schema(
    locations: impl Locations,
    options: &BTreeMap<String, String>,
) -> Result<Option<Unischema>> {
    let (locations, options) = (locations.into_locations()?, options.clone());
    let io = IoRuntime::start()?;
    let reading = async move { common_values(&locations, &options, UNISCHEMA_KEY).await };
    one_schema(io.wait_for(reading)??)
}

impl Dataset {
    /// Returns the schema that Petastorm wrote beside the files of the folders that were opened; `None` if it
    /// wrote none, or if files were named instead of a folder or a glob. The schema is read when this is
    /// first called, and kept. Loaders decode the columns as it says.
    ///
    /// # Errors
    /// The errors of [`petastorm::schema`](crate::petastorm::schema).
    pub fn petastorm_schema(&self) -> Result<Option<Arc<Unischema>>> {
        let (io, store) = self.here()?;
        self.petastorm_schema_of(&io, &store)
    }

    /// Returns the schema, and reads it from `store` on the threads of `io` if it was not read before.
    pub(super) fn petastorm_schema_of(
        &self,
        io: &IoRuntime,
        store: &Store,
    ) -> Result<Option<Arc<Unischema>>> {
        if let Some(known) = self.petastorm.get() {
            return Ok(known.clone());
        }
        if !store.has_common_metadata() {
            return Ok(None);
        }
        let store = store.clone();
        let schema = one_schema(io.wait_for(async move { store.common_values(UNISCHEMA_KEY).await })??)?;
        Ok(self.petastorm.get_or_init(|| schema.map(Arc::new)).clone())
    }
}

/// Parses the schemas that were found in several folders, and returns the one that all of them share; `None`
/// if none was found.
///
/// # Errors
/// Fails if a value is not a schema, or if two folders have different schemas.
fn one_schema(values: Vec<StoredValue>) -> Result<Option<Unischema>> {
    let mut first: Option<(String, Unischema)> = None;
    for value in values {
        let place = Place::file(&*value.file);
        let schema = Unischema::read(&value.bytes).map_err(|error| error.at(place.clone()))?;
        match &first {
            Some((file, known)) if *known != schema => {
                let cause = format!("it has another schema than {file}");
                let error = Error::new(ErrorKind::Unsupported, cause).at(place);
                return Err(error.hint("open one of the two, or mix them"));
            }
            Some(_) => {}
            None => first = Some((value.file, schema)),
        }
    }
    Ok(first.map(|(_, schema)| schema))
}
