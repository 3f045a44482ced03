//! Output files that the user names in options. A command checks that it can write them before its work
//! begins, and writes them when the work is done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forebay_base::{Error, ErrorKind, Place, Result};
use rustix::fs::{Access, access};
use rustix::io::Errno;

/// An output file, and the option in which the user named it.
pub(crate) struct Output {
    option: &'static str,
    file: PathBuf,
}

impl Output {
    /// Checks that the file can be written, without opening or creating it: to open a named pipe would block
    /// until it has a reader, and a failed run should not leave an empty file.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub(crate) fn new(option: &'static str, file: &Path) -> Result<Self> {
        let output = Output { option, file: file.to_path_buf() };
        output.check().map_err(|error| output.failed(&error))?;
        Ok(output)
    }

    pub(crate) fn write(&self, text: &str) -> Result<()> {
        fs::write(&self.file, text).map_err(|error| self.failed(&error))
    }

    fn check(&self) -> io::Result<()> {
        let is_folder = self.file.as_os_str().as_encoded_bytes().ends_with(b"/");
        match fs::metadata(&self.file) {
            Ok(found) if found.is_dir() => Err(Errno::ISDIR.into()),
            Ok(_) => Ok(access(&self.file, Access::WRITE_OK)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_folder => {
                let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
                Ok(access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)?)
            }
            Err(error) => Err(error),
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{} cannot be written: {error}", self.option))
            .at(Place::file(self.file.to_string_lossy()))
            .hint("name a file in a folder that exists and can be written to")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused_before_and_nothing_is_made() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::write(at("old"), "old").unwrap();
        for (name, why) in [
            ("no/such/x", "No such file or directory"),
            ("new/", "No such file or directory"),
            (".", "Is a directory"),
            ("old/x", "Not a directory"),
        ] {
            let error = Output::new("--report", &at(name)).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            let start = format!("{}: --report cannot be written: {why}", at(name).display());
            assert!(error.to_string().starts_with(&start), "{error}");
        }
        for name in ["new", "old"] {
            assert!(Output::new("--report", &at(name)).is_ok());
        }
        assert!(!at("new").exists());
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "old");
        Output::new("--report", &at("old")).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "new");
    }
}
