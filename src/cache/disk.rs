//! Measures the speed of the disk, past the page cache.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::OFlags;

/// Bytes read at a time, as the read-ahead of a map and the disk's queue do for a sequential reader.
const READ_BYTES: usize = 4 << 20;
/// Enough of a file for a measurement, and too little to disturb others.
const MAX_MEASURED_BYTES: u64 = 64 << 20;
/// The largest alignment in memory that direct reads require.
const ALIGNMENT: usize = 4096;

/// Bytes a second of reading a file from the disk itself; `None` for a file of less than one chunk.
pub(super) fn rate(path: &Path) -> io::Result<Option<f64>> {
    let flags = OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let mut memory = vec![0; READ_BYTES + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let aligned = &mut memory[start..start + READ_BYTES];
    let (started, mut read) = (Instant::now(), 0);
    while read < MAX_MEASURED_BYTES {
        let bytes = file.read(aligned)?;
        read += bytes as u64;
        // The end of a file is not a whole chunk, and would distort the rate.
        if bytes < READ_BYTES {
            break;
        }
    }
    Ok((read >= READ_BYTES as u64).then(|| read as f64 / started.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_a_rate_and_a_small_file_none() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 3 * READ_BYTES]).unwrap();
        // Not every file system has direct reads.
        if let Ok(found) = rate(&path) {
            assert!(found.unwrap() > 1e6, "{found:?}");
            std::fs::write(&path, [7; 100]).unwrap();
            assert_eq!(rate(&path).unwrap(), None);
        }
        assert!(rate(&folder.path().join("none")).is_err());
    }
}
