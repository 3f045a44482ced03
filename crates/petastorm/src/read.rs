//! From the bytes of a pickle to a schema.

use forebay_base::Result;

use crate::budget::Budget;
use crate::unischema::Unischema;
use crate::{form, machine};

impl Unischema {
    /// Reads a schema from its pickle: what is under [`UNISCHEMA_KEY`](crate::UNISCHEMA_KEY).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](forebay_base::ErrorKind::Unsupported) for a pickle that names anything but what schemas are made of, and for types
    /// that are not read; [`Corrupt`](forebay_base::ErrorKind::Corrupt) for bytes that are no schema;
    /// [`TooLarge`](forebay_base::ErrorKind::TooLarge) beyond some 3,000 fields. The place is the column where it is known; the caller
    /// adds the file.
    pub fn read(pickle: &[u8]) -> Result<Self> {
        let mut budget = Budget::new();
        let (value, heap) = machine::perform(pickle, &mut budget)?;
        form::unischema(value, &heap, &mut budget)
    }
}
