//! The schema that Petastorm keeps beside the files of a data set.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_petastorm::{UNISCHEMA_KEY, Unischema};
use forebay_store::source::{Store, StoredValue, common_values};

use super::dataset::{Dataset, Locations};
use super::threads::IoRuntime;

/// The schema of a Petastorm data set, or `None` if it has none: from the file `_common_metadata` in the
/// folder that is opened, in the folder where a glob begins, or in the one that named files share. No other
/// footer is read. `options` are those of [`Dataset::open_with_options`](crate::Dataset::open_with_options).
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
/// `NotFound` if nothing matches; `Corrupt` for a `_common_metadata` that is damaged, and for bytes in it
/// that are not a schema; `Unsupported` for one that refers to anything but the parts of schemas, or if two
/// folders have different ones. The place is the file.
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
    /// The schema that Petastorm wrote beside the files of the folders that were opened; `None` if it wrote
    /// none, or if files were named instead of a folder or a glob. It is read once, when it is first asked
    /// for. Loaders decode the columns by it.
    ///
    /// # Errors
    /// The errors of [`petastorm::schema`](crate::petastorm::schema).
    pub fn petastorm_schema(&self) -> Result<Option<Arc<Unischema>>> {
        let (io, store) = self.here()?;
        self.petastorm_schema_of(&io, &store)
    }

    /// The schema, read from the stores of the data set in this process.
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

/// The one schema of all folders, among the values that were found in them.
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
