//! A panic that becomes an error is not printed, and all other panics are.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use forebay::arrow::array::{ArrayRef, RecordBatch, StringArray};
use forebay::{Dataset, ErrorKind};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;

static PRINTED: AtomicUsize = AtomicUsize::new(0);

#[test]
#[allow(clippy::disallowed_methods, reason = "it is the user's hook that is tested")]
fn what_a_decoder_panics_about_reaches_only_the_error() {
    // This hook stands for one that a user has set before the library is used.
    std::panic::set_hook(Box::new(|_| {
        PRINTED.fetch_add(1, SeqCst);
    }));

    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("a.parquet");
    let words = (0..60).map(|i| format!("{}tail{i}", format!("{:03}", i % 7).repeat(i % 5)));
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    let batch = RecordBatch::try_from_iter([("s", column)]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BYTE_ARRAY)
        .build();
    let mut good = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut good, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let end = writer.close().unwrap().row_group(0).column(0).byte_range().1 as usize;

    let mut corrupt = 0;
    for at in (30..end).step_by(2) {
        let mut bad = good.clone();
        bad[at] ^= 0x15;
        std::fs::write(&path, bad).unwrap();
        let read = Dataset::open(path.as_path()).and_then(|dataset| dataset.loader().threads(1).build());
        let error = read.and_then(|loader| loader.epoch(0).collect::<Result<Vec<_>, _>>()).err();
        corrupt += usize::from(error.is_some_and(|error| error.kind() == ErrorKind::Corrupt));
    }
    assert!(corrupt > 0, "no file of these was found to be corrupt");
    assert_eq!(PRINTED.load(SeqCst), 0, "texts of panics");

    assert!(std::thread::spawn(|| panic!("of the user's")).join().is_err());
    assert_eq!(PRINTED.load(SeqCst), 1, "the user's hook still hears the user's panics");
}
