//! Turns errors of the system, of Arrow and of Parquet into errors of this library.

use forebay_base::{Error, ErrorKind, Result};
use parquet::errors::ParquetError;

use super::error::ArrowError;

/// An error of another crate that can become an error of this library.
///
/// The trait is used instead of `From`, because implementations of `From` are public: replacing a crate whose
/// errors are converted would then break users.
pub trait Foreign: Sized {
    /// Converts the error, with the original as the source.
    fn into_error(self) -> Error;
}

impl Foreign for std::io::Error {
    fn into_error(self) -> Error {
        Error::of_io(self)
    }
}

impl Foreign for ParquetError {
    fn into_error(self) -> Error {
        let error = match &self {
            ParquetError::NYI(what) => Error::new(ErrorKind::Unsupported, what),
            // The Arrow schema in the file's footer has a type that this version of Arrow does not know, such
            // as integers of 128 bits.
            ParquetError::External(inner) if inner.to_string().ends_with("not supported") => {
                Error::new(ErrorKind::Unsupported, inner.to_string())
                    .hint("write the file without columns of that type")
            }
            other => Error::new(ErrorKind::Corrupt, other.to_string()),
        };
        error.caused_by(self)
    }
}

impl Foreign for ArrowError {
    fn into_error(self) -> Error {
        Error::new(ErrorKind::Internal, self.to_string()).caused_by(self)
    }
}

/// Converts results of other crates, for use with `?`: `file.sync_all().or_fail()?`.
pub trait OrFail<T> {
    /// The value, or the error as an error of this library.
    fn or_fail(self) -> Result<T>;
}

impl<T, E: Foreign> OrFail<T> for Result<T, E> {
    fn or_fail(self) -> Result<T> {
        self.map_err(E::into_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_another_crate_is_the_source() {
        use std::error::Error as _;
        let missing: Result<std::fs::File> = std::fs::File::open("no/such/file").or_fail();
        let error = missing.unwrap_err().at(forebay_base::Place::file("no/such/file")).clone();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
        assert!(Error::invalid("x").source().is_none());
    }
}
