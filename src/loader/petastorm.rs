//! The schema that Petastorm keeps beside the files of a data set.

use std::collections::BTreeMap;

use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_petastorm::{UNISCHEMA_KEY, Unischema};
use forebay_store::source::common_values;

use super::dataset::Locations;
use super::threads::IoRuntime;

/// The schema of a Petastorm data set, or `None` where it has none: from the file `_common_metadata` in the folder
/// that is opened, in the folder where a glob begins, or in the one that named files share. No other footer is read.
/// `options` are those of [`Dataset::open_with_options`](crate::Dataset::open_with_options).
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
/// `NotFound` where nothing matches; `Corrupt` for a `_common_metadata` that is damaged, and for a schema that is
/// none; `Unsupported` for one that names anything but what schemas are made of, or where two folders have different
/// ones. The place is the file.
pub fn petastorm_schema(
    locations: impl Locations,
    options: &BTreeMap<String, String>,
) -> Result<Option<Unischema>> {
    let (locations, options) = (locations.into_locations()?, options.clone());
    let io = IoRuntime::start()?;
    let reading = async move { common_values(&locations, &options, UNISCHEMA_KEY).await };
    let mut first: Option<(String, Unischema)> = None;
    for value in io.wait_for(reading)?? {
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
