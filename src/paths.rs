//! Paths of this machine as people write them: one reading for the library's doors.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file or folder to write: the path as given, with the user's home for a `~`, as a shell has it.
///
/// # Errors
/// `Invalid` for no text at all, for a URL, which is not repeated since it may hold a password, and for a home folder that
/// is not known.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(forebay::paths::local("/nvme/forebay")?, Path::new("/nvme/forebay"));
/// assert!(forebay::paths::local("s3://acme/forebay").is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
pub fn local(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    if path.to_string_lossy().trim().is_empty() {
        return Err(Error::invalid("the path is empty").hint("give a path on this machine"));
    }
    if is_url(&path.to_string_lossy()) {
        return Err(Error::invalid("a URL is no path on this machine").hint("give the path of a local disk"));
    }
    expanded(path.to_path_buf())
}

/// Whether a text begins as a URL does: `s3://b`, and `https:/h` too, from which a path has lost a slash.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.trim_start().split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && rest.starts_with('/')
}

/// A path with the user's home for a `~`, as a shell has it.
pub(crate) fn expanded(path: PathBuf) -> Result<PathBuf> {
    let mut names = path.components();
    let first = names.next().map(|name| name.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
    let Some(user) = first.strip_prefix('~') else { return Ok(path) };
    if !user.is_empty() {
        return Err(Error::invalid(format!("the home folder of another user, {first}, is not looked up"))
            .hint("write the whole path"));
    }
    match std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => Ok(home.join(names.as_path())),
        None => Err(Error::invalid("~ stands for a home folder, and none is known")
            .hint("set HOME, or write the path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
