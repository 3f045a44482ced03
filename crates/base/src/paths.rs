//! Paths of this machine as people write them, read in the same way by the library, Python and the program.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

/// A path as text, unchanged.
///
/// # Errors
/// `Invalid` for a path that is not valid UTF-8.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::invalid(format!("the path {path:?} is not valid UTF-8"))
            .hint("rename it, or open it by a link")
    })
}

/// Makes a path absolute. A path that is already absolute is returned without reading the working folder,
/// which may have been deleted.
///
/// # Errors
/// `NotFound` for a relative path if the working folder was deleted.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| match path.is_relative() && std::env::current_dir().is_err() {
        true => {
            Error::new(ErrorKind::NotFound, "the working directory was deleted, or this user may not read it")
                .hint("give the whole path, or go to another folder first")
        }
        false => Error::of_io(error),
    })
}

/// A file or folder to write: the path as given, with `~` expanded to the user's home, as a shell does.
///
/// # Errors
/// `Invalid` for an empty path, for a URL (which is not repeated, since it may hold a password), and for a
/// `~` if the home folder is not known.
pub fn local(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    // The text only serves the two checks below; the path itself stays as it is.
    let text = path.to_string_lossy();
    if text.trim().is_empty() {
        return Err(Error::invalid("the path is empty").hint("give a path on this machine"));
    }
    if is_url(&text) {
        return Err(Error::invalid("expected a local path, got a URL").hint("give the path of a local disk"));
    }
    expanded(path.to_path_buf())
}

/// Whether a text begins like a URL: `s3://b`, and also `https:/h`, a URL that lost a slash when it became a
/// path.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.trim_start().split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && rest.starts_with('/')
}

/// A path with `~` expanded to the user's home, as a shell does.
pub fn expanded(path: PathBuf) -> Result<PathBuf> {
    let mut names = path.components();
    let first = names.next().map(|name| name.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
    let Some(user) = first.strip_prefix('~') else { return Ok(path) };
    if !user.is_empty() {
        return Err(Error::invalid(format!("{first}: the home folder of another user is not expanded"))
            .hint("write the whole path"));
    }
    match std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => Ok(home.join(names.as_path())),
        None => Err(Error::invalid("~ cannot be expanded: the home folder is unknown")
            .hint("set HOME, or write the whole path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_name_in_text_is_refused_and_not_renamed() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"/data/caf\xe9"));
        assert_eq!(local(path).unwrap(), path, "a folder to write to needs no name in text");
        let error = text(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("is not valid UTF-8"), "{error}");
    }

    #[test]
    fn a_path_of_this_machine_is_neither_empty_nor_a_url() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(local("~/cache").unwrap(), home.join("cache"));
        for path in ["x", "/a:/b", "./s3:/b", "12:30", "a@b:c"] {
            assert_eq!(local(path).unwrap(), Path::new(path));
        }
        for path in
            ["", " ", "s3://ann:hunter2@b/x", "https:/ann:hunter2@h", " file:///x", "HTTPS://hunter2@h"]
        {
            let error = local(path).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
