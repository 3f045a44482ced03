//! Notes: short texts that processes keep beside the entries, such as what was measured for a data set.

use std::fs;
use std::io::{self, Read, Write};

use super::folder;
use super::{DiskCache, Key};

/// The largest number of bytes that are read of a note.
const MAX_NOTE_BYTES: u64 = 4096;

impl DiskCache {
    /// Returns the note under `key`, parsed by `parse`; `None` if there is no note, or if it cannot be
    /// parsed.
    pub(crate) fn note<T>(&self, key: &Key, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut text = String::new();
        let file = folder::open(&self.0.space.folder.note(key.name())).ok()?;
        file.take(MAX_NOTE_BYTES).read_to_string(&mut text).ok()?;
        parse(&text)
    }

    /// Writes a note under `key`, and returns it. If there already is a note that `parse` can read, keeps and
    /// returns that earlier note instead. Failing to write the note is not an error.
    pub(crate) fn keep_note<T>(&self, key: &Key, text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        if let Err(error) = self.write_note(key, text, false)
            && error.kind() == io::ErrorKind::AlreadyExists
        {
            let earlier = self.note(key, &parse);
            if earlier.is_some() {
                return earlier;
            }
            let _ = self.write_note(key, text, true);
        }
        parse(text)
    }

    fn write_note(&self, key: &Key, text: &str, again: bool) -> io::Result<()> {
        let folder = &self.0.space.folder;
        folder.prepare().map_err(io::Error::other)?;
        if folder.make_room_for(key.name())? {
            return Err(io::Error::other("a file is in the place of the subfolder"));
        }
        let path = folder.note(key.name());
        if again {
            folder::clear(&path)?;
            fs::remove_file(&path)?;
        }
        folder::create(&path, false)?.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn the_first_note_holds_until_the_cache_is_emptied() {
        let home = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(home.path().join("cache"), 1 << 20).unwrap();
        let parse = |text: &str| text.parse::<u64>().ok();
        let key = Key::new("data", 1, "v", 0, "all", &Schema::empty());
        assert_eq!(cache.note(&key, parse), None);
        assert_eq!(cache.keep_note(&key, "7", parse), Some(7));
        assert_eq!(cache.keep_note(&key, "8", parse), Some(7), "another process was first");
        assert_eq!(cache.note(&key, parse), Some(7));
        let report = cache.verify().unwrap();
        assert_eq!((report.sound, report.strange), (0, 0), "a note is no entry, and belongs to the cache");
        cache.clear().unwrap();
        assert_eq!(cache.note(&key, parse), None);

        fs::write(cache.0.space.folder.note(key.name()), "torn").unwrap();
        assert_eq!(cache.keep_note(&key, "9", parse), Some(9), "a note that is not one is replaced");
        assert_eq!(cache.note(&key, parse), Some(9));
    }
}
