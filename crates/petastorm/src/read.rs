//! Reads a schema from the bytes of its pickle.

use forebay_base::Result;

use crate::budget::Budget;
use crate::unischema::Unischema;
use crate::{form, machine};

impl Unischema {
    /// Reads a schema from its pickle, which is stored under [`UNISCHEMA_KEY`](crate::UNISCHEMA_KEY).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](forebay_base::ErrorKind::Unsupported) for a pickle with a name that schemas do not
    /// have, and for types that cannot be read; [`Corrupt`](forebay_base::ErrorKind::Corrupt) for bytes that
    /// are not a schema; [`TooLarge`](forebay_base::ErrorKind::TooLarge) beyond some 3,000 fields. The error
    /// names the column, if it is known; the caller adds the name of the file.
    pub fn read(pickle: &[u8]) -> Result<Self> {
        let mut budget = Budget::new();
        let (value, heap) = machine::perform(pickle, &mut budget)?;
        form::unischema(value, &heap, &mut budget)
    }
}
