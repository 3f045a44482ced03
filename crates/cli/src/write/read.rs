//! Reads local files, and names the file in each error.

use std::path::{Component, Path, PathBuf};

use forebay_base::{Error, ErrorKind, Place, Result};

/// The UTF-8 byte order mark, with which some programs begin a file.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// The error of a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        // Decompressors return these kinds for a file that is truncated or damaged.
        std::io::ErrorKind::UnexpectedEof
        | std::io::ErrorKind::InvalidData
        | std::io::ErrorKind::InvalidInput => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    let error = Error::new(kind, format!("this cannot be read: {error}")).at(place(path));
    match (kind, path.extension().and_then(|ending| ending.to_str())) {
        (ErrorKind::Corrupt, Some(ending @ ("gz" | "zst"))) => error.hint(format!(
            "copy or compress it again if it was cut; if it is not compressed, remove .{ending} from its name"
        )),
        _ => error,
    }
}

pub(super) fn place(path: &Path) -> Place {
    Place::file(path.display().to_string())
}

/// Reads a whole file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    read_regular(path)?.map_err(|error| unreadable(path, &error))
}

/// Reads a whole file, and leaves it to the caller to say why it cannot be read.
///
/// # Errors
/// Fails if this is a pipe or a device, which may have no end.
pub(super) fn read_regular(path: &Path) -> Result<std::io::Result<Vec<u8>>> {
    // Opening a pipe waits for a writer, so its kind is looked up before.
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() && !about.is_dir() => {
            let error = Error::invalid("this is a pipe or a device, not a regular file").at(place(path));
            Err(error.hint("copy what it gives to a file, and name that file"))
        }
        _ => Ok(std::fs::read(path)),
    }
}

/// A text without its byte order mark.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Reads a file, which must still have the number of bytes that it had when it was found.
pub(super) fn read_found(path: &Path, bytes: u64) -> Result<Vec<u8>> {
    let content = read_file(path)?;
    match content.len() as u64 == bytes {
        true => Ok(content),
        false => {
            let cause = format!(
                "the file changed while others were read: it had {bytes} bytes, and has {}",
                content.len()
            );
            let error = Error::new(ErrorKind::Corrupt, cause);
            Err(error.at(place(path)).hint("remove what was written, and write it again"))
        }
    }
}

/// The hint for a text that is not valid JSON. It is `otherwise` if the error itself suggests nothing better.
pub(super) fn json_hint<'a>(error: &serde_json::Error, otherwise: &'a str) -> &'a str {
    match error.to_string() {
        said if said.contains("expected value") || said.contains("invalid number") => {
            "if this is NaN or Infinity, which Python's json writes and JSON does not have, write null or a number"
        }
        said if said.contains("hex escape") => {
            "half of a pair such as \\ud83d\\ude00 is not a character: write both halves, or \\ufffd"
        }
        said if said.contains("invalid unicode") => "the file is not UTF-8: convert it",
        _ => otherwise,
    }
}

/// The path of a file beside another one.
pub(super) fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// The path of a file whose `name` others wrote, in the folder or below it. The name is from the folder, or
/// absolute. `None` if it leads out of the folder, so that nobody's table can name files such as keys.
pub(super) fn below(folder: &Path, name: &str) -> Option<PathBuf> {
    let name = Path::new(name);
    if !name.is_absolute() {
        let mut within = PathBuf::new();
        for part in name.components() {
            match part {
                Component::ParentDir if !within.pop() => return None,
                Component::ParentDir | Component::CurDir => {}
                part => within.push(part),
            }
        }
        return Some(folder.join(within));
    }
    if name.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let known = [std::path::absolute(here), here.canonicalize()];
    let rest = known.iter().flatten().find_map(|folder| name.strip_prefix(folder).ok())?;
    Some(folder.join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_device_is_refused_and_not_read() {
        let refused = read_file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("not a regular file") && refused.contains("/dev/zero"), "{refused}");
    }

    #[test]
    fn a_name_leads_nowhere_but_below_its_folder() {
        let here = std::env::current_dir().unwrap();
        for folder in ["", ".", "src", "/data/set"] {
            let folder = Path::new(folder);
            for out in ["../a", "a/../../b", "a/../../a/b", "/etc/passwd", "/data/sets/a", "/data"] {
                assert_eq!(below(folder, out), None, "{out} of {folder:?}");
            }
            for (name, path) in
                [("a.jpg", "a.jpg"), ("./a/b.jpg", "a/b.jpg"), ("a/../b", "b"), ("a..b/c", "a..b/c")]
            {
                assert_eq!(below(folder, name), Some(folder.join(path)));
            }
            let whole = here.join(folder).join("a/b");
            assert_eq!(below(folder, whole.to_str().unwrap()), Some(folder.join("a/b")));
        }
    }
}
