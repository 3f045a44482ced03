//! Measures the speed of the disk itself, without the page cache, on Linux.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::OFlags;

/// How many bytes are read at a time: long reads, like those of a kernel that reads ahead for a sequential
/// reader.
const READ_BYTES: usize = 4 << 20;
/// How many bytes of a file are read at most: enough for a measurement, and too few to disturb others.
const MAX_MEASURED_BYTES: u64 = 64 << 20;
/// How many bytes are written and read to measure a disk on which the cache has no entries yet.
const PROBE_BYTES: usize = 16 << 20;
/// The largest memory alignment that direct reads require, in bytes.
const ALIGNMENT: usize = 4096;

/// The speed of reading a file from the disk itself, in bytes per second; `None` for a file of fewer than
/// [`READ_BYTES`] bytes.
pub(super) fn rate(path: &Path) -> io::Result<Option<f64>> {
    let flags = OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    with_aligned(|aligned| rate_of(file, aligned))
}

/// The speed of reading from the disk of `folder`, in bytes per second, measured with an unnamed temporary
/// file.
pub(super) fn rate_of_new(folder: &Path) -> io::Result<f64> {
    let flags = OFlags::DIRECT | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file =
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(folder)?;
    with_aligned(|aligned| {
        for _ in 0..PROBE_BYTES / READ_BYTES {
            file.write_all(aligned)?;
        }
        file.rewind()?;
        rate_of(file, aligned)?.ok_or(io::ErrorKind::UnexpectedEof.into())
    })
}

/// Calls `use_memory` with memory for one direct read.
fn with_aligned<T>(use_memory: impl FnOnce(&mut [u8]) -> io::Result<T>) -> io::Result<T> {
    let mut memory = vec![0; READ_BYTES + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    use_memory(&mut memory[start..start + READ_BYTES])
}

/// The speed of reading an open file; `None` for a file of fewer than [`READ_BYTES`] bytes.
fn rate_of(mut file: File, aligned: &mut [u8]) -> io::Result<Option<f64>> {
    let (started, mut read) = (Instant::now(), 0);
    while read < MAX_MEASURED_BYTES {
        let bytes = file.read(aligned)?;
        read += bytes as u64;
        // The last piece of a file is shorter than the others, and would distort the rate.
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
        if let Ok(found) = rate_of_new(folder.path()) {
            assert!(found > 1e6, "{found:?}");
            assert_eq!(folder.path().read_dir().unwrap().count(), 1, "it leaves no file");
        }
    }
}
