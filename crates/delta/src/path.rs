//! Decodes the paths in a Delta log. They are percent-encoded, and either relative to the table's folder or
//! absolute.

use forebay_base::{Error, ErrorKind, Place, Result};

/// Turns a path in the log into a path below `root`, the folder of the table.
///
/// # Errors
/// `Unsupported` for a path outside the table, `Corrupt` for a text that is not a path.
pub(crate) fn below(text: &str, root: &str) -> Result<String> {
    let whole = decoded(text);
    let relative = match is_absolute(&whole) {
        true => inside(&whole, root).ok_or_else(|| leads_out(&whole, root))?,
        false => whole.as_str(),
    };
    let parts = relative.split('/');
    if parts.clone().any(|part| part == "..") {
        return Err(leads_out(&whole, root));
    }
    if relative.contains('\0') || parts.into_iter().any(|part| part.is_empty() || part == ".") {
        let cause = format!("the log has an invalid path, {text:?}");
        return Err(Error::new(ErrorKind::Corrupt, cause));
    }
    Ok(relative.to_owned())
}

fn leads_out(path: &str, root: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this path in the log leads out of the table in {root}"))
        .hint("a shallow clone refers to files of another table: write its rows to a table of its own")
        .at(Place::file(path))
}

/// Whether a path is absolute: it begins with `/` or with the scheme of a URL.
fn is_absolute(path: &str) -> bool {
    let scheme = path.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    path.starts_with('/') || scheme.is_some_and(is_scheme) && path.contains(":/")
}

/// The rest of an absolute path after the folder `root`; `None` if the path is not below that folder.
fn inside<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let plain = |path: &'a str| {
        let rest = path.strip_prefix("file:")?;
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        rest.get(slashes.checked_sub(1)?..)
    };
    let path = plain(path).unwrap_or(path);
    let of_s3 = |path: &'a str| path.strip_prefix("s3a://").or_else(|| path.strip_prefix("s3n://"));
    let below = match (of_s3(path), root.strip_prefix("s3://")) {
        (Some(path), Some(root)) => path.strip_prefix(root),
        _ => path.strip_prefix(root),
    };
    below?.strip_prefix('/')
}

/// Decodes percent escapes such as `%41`. Returns the text unchanged if the decoded bytes are not UTF-8.
fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (byte == b'%').then(|| Some(digit(0)? * 16 + digit(1)?)).flatten() {
            Some(code) => {
                bytes.push(code as u8);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once_and_stay_in_the_table() {
        let below = |text, root| below(text, root).unwrap();
        assert_eq!(below("x=A%252FA/part-0.parquet", "/t"), "x=A%2FA/part-0.parquet");
        assert_eq!(below("a%20b.parquet", "/t"), "a b.parquet");
        assert_eq!(below("50%.parquet", "/t"), "50%.parquet");
        assert_eq!(below("at=12:30/f.parquet", "/t"), "at=12:30/f.parquet");
        assert_eq!(below("file:///data/t/f.parquet", "/data/t"), "f.parquet");
        assert_eq!(below("file:/data/t/f.parquet", "/data/t"), "f.parquet");
        assert_eq!(below("/data/t/x/f.parquet", "/data/t"), "x/f.parquet");
        assert_eq!(below("s3a://acme/t/f.parquet", "s3://acme/t"), "f.parquet");
    }

    #[test]
    fn paths_out_of_the_table_are_refused() {
        for out in [
            "../other/f.parquet",
            "x/../../f.parquet",
            "%2E%2E/f.parquet",
            "/etc/passwd",
            "file:///data/tt/f.parquet",
            "s3://other/t/f.parquet",
            "https://example.org/f.parquet",
        ] {
            let error = below(out, "/data/t").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{out}");
            assert!(error.to_string().contains("leads out of the table in /data/t"), "{error}");
        }
        for none in ["", "x//f.parquet", "x/./f.parquet", "x/", "f%00.parquet"] {
            assert_eq!(below(none, "/data/t").unwrap_err().kind(), ErrorKind::Corrupt, "{none}");
        }
    }
}
