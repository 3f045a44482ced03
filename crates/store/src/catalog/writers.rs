//! Peculiarities of programs that write Parquet files. The footer of a file names the program.

/// The name of the Java library for Parquet, with which `created_by` begins in footers.
const PARQUET_MR: &str = "parquet-mr";
/// The first version of parquet-mr that includes the header of the dictionary page in the size of a column
/// chunk.
const COUNTS_DICTIONARY_HEADER: [u32; 3] = [1, 2, 9];

/// The size in bytes of the longest header of a dictionary page that is expected to be missing from the size
/// of a column chunk.
pub(crate) const LEFT_OUT: i64 = 100;

/// Whether this program may leave the header of the dictionary page out of the size of a column chunk, as
/// parquet-mr before 1.2.9 did (PARQUET-816).
pub fn leaves_out_dictionary_header(created_by: Option<&str>) -> bool {
    let Some(version) = created_by.and_then(|name| name.strip_prefix(PARQUET_MR)) else { return false };
    let numbers = version.split(|letter: char| !letter.is_ascii_digit()).filter(|number| !number.is_empty());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(u32::MAX));
    let version: [u32; 3] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
    version < COUNTS_DICTIONARY_HEADER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_of_parquet_mr_are_known() {
        for (name, is_old) in [
            ("parquet-mr version 1.2.8 (build abc)", true),
            ("parquet-mr version 1.2.5-cdh4", true),
            ("parquet-mr", true),
            ("parquet-mr version 1.2.9", false),
            ("parquet-mr version 1.6.0rc3 (build 4)", false),
            ("parquet-mr version 1.12.3 (build 1)", false),
            ("parquet-cpp version 1.2.8", false),
            ("DuckDB", false),
        ] {
            assert_eq!(leaves_out_dictionary_header(Some(name)), is_old, "{name}");
        }
        assert!(!leaves_out_dictionary_header(None));
    }
}
