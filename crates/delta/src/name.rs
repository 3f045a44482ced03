//! Parses the names of the files in a Delta log.

/// The number of digits of the version at the beginning of a file's name.
const DIGITS: usize = 20;

/// A kind of file in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFile {
    /// A file with the changes that made this version.
    Commit(u64),
    /// A file with the whole state of the table at a version, or with a part of it.
    Checkpoint {
        version: u64,
        /// The number of this part, and the number of parts; `None` if the checkpoint is in one file.
        part: Option<(u32, u32)>,
    },
}

impl LogFile {
    /// The kind of the file with this name; `None` for files that are not read, such as checksums.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (digits, rest) = name.split_at_checked(DIGITS)?;
        let version = number(digits)?;
        if rest == ".json" {
            return Some(LogFile::Commit(version));
        }
        let rest = rest.strip_prefix(".checkpoint.")?;
        if rest == "parquet" {
            return Some(LogFile::Checkpoint { version, part: None });
        }
        let (middle, suffix) = rest.rsplit_once('.')?;
        match (middle.split_once('.'), suffix) {
            (Some((part, parts)), "parquet") if part.len() == 10 && parts.len() == 10 => {
                let part = (u32::try_from(number(part)?).ok()?, u32::try_from(number(parts)?).ok()?);
                (part.0 >= 1 && part.0 <= part.1).then_some(LogFile::Checkpoint { version, part: Some(part) })
            }
            (None, "parquet" | "json") if is_uuid(middle) => {
                Some(LogFile::Checkpoint { version, part: None })
            }
            _ => None,
        }
    }
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_log_are_known_by_their_names() {
        let checkpoint = |part| Some(LogFile::Checkpoint { version: 10, part });
        for (name, file) in [
            ("00000000000000000010.json", Some(LogFile::Commit(10))),
            ("00000000000000000010.checkpoint.parquet", checkpoint(None)),
            ("00000000000000000010.checkpoint.0000000001.0000000003.parquet", checkpoint(Some((1, 3)))),
            ("00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", checkpoint(None)),
            (
                "00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
                checkpoint(None),
            ),
            ("00000000000000000010.checkpoint.0000000004.0000000003.parquet", None),
            ("00000000000000000010.checkpoint.0000000000.0000000003.parquet", None),
            ("00000000000000000010.crc", None),
            ("00000000000000000010.00000000000000000020.compacted.json", None),
            ("00000000000000000010.80a083e8-7026-4e79-81be-64bd76c43a11.json", None),
            ("_last_checkpoint", None),
            ("0000000000000000001é.json", None),
            ("99999999999999999999.json", None),
        ] {
            assert_eq!(LogFile::parse(name), file, "{name}");
        }
    }
}
