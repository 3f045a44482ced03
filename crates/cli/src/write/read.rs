//! Reads local files, and names the file in each error.

use std::path::{Path, PathBuf};

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
    std::fs::read(path).map_err(|error| unreadable(path, &error))
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
