//! The errors for schemas that cannot be read.

use forebay_base::{Error, ErrorKind};

/// How many characters of a name from the pickle an error repeats.
const MAX_NAME_CHARACTERS: usize = 100;

/// The hint for a damaged schema.
const WRITE_AGAIN: &str =
    "write the schema again with `petastorm-generate-metadata.py`, which comes with Petastorm";

/// The error for bytes that are not a valid pickle.
pub(crate) fn damaged(at: usize, what: impl AsRef<str>) -> Error {
    let cause = format!("the Petastorm schema is damaged at byte {at}: {}", what.as_ref());
    Error::new(ErrorKind::Corrupt, cause).hint(WRITE_AGAIN)
}

/// The error for a pickle that is not a schema.
pub(crate) fn malformed(what: impl AsRef<str>) -> Error {
    let cause = format!("the Petastorm schema is malformed: {}", what.as_ref());
    Error::new(ErrorKind::Corrupt, cause).hint(WRITE_AGAIN)
}

/// The error for a pickle that imports a name that no Petastorm schema uses.
pub(crate) fn foreign(at: usize, module: &str, name: &str) -> Error {
    let named = shortened(&format!("{module}.{name}"));
    let cause = format!("the schema names `{named}` at byte {at}, which no Petastorm schema does");
    Error::new(ErrorKind::Unsupported, cause)
        .hint("it was not imported or run here, and other readers of this data set may do so")
}

/// The error for a type that a schema may have, but that this crate does not read.
pub(crate) fn unread(at: usize, module: &str, name: &str) -> Error {
    let named = shortened(&format!("{module}.{name}"));
    Error::new(
        ErrorKind::Unsupported,
        format!("the schema has the type `{named}` at byte {at}, which is not read"),
    )
    .hint("write the data set without fields of that type")
}

/// Shortens a name to a length that fits in an error message.
pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_CHARACTERS) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
