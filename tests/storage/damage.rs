//! Bits that flip on their way are found by the pages' checksums. The bytes are fetched once more; if they
//! are still damaged, there is an error.

use std::fs;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fault_server::{Fault, Match};
use forebay::{Dataset, ErrorKind, Shuffle};
use parquet::file::metadata::ParquetMetaDataReader;

use crate::data::{BUCKET, FILES, GROUPS, PREFIX, chunk_range, name_of, page};
use crate::kit::*;

/// One bit within a page.
struct Bit {
    group: usize,
    column: String,
    offset: u64,
    bit: u8,
}

fn some_bit(file: &Bytes, seed: u64) -> Bit {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file).unwrap();
    let group = draw(seed, 2) as usize % GROUPS;
    let columns = metadata.row_group(group).columns();
    let chunk = &columns[draw(seed, 3) as usize % columns.len()];
    let range = chunk_range(chunk);
    let (header, body) = page(&file[range.clone()]);
    let offset = (range.start + header) as u64 + draw(seed, 4) % body as u64;
    Bit { group, column: chunk.column_path().string(), offset, bit: (draw(seed, 5) % 8) as u8 }
}

#[test]
fn a_bit_that_turns_over_is_always_found() {
    let turns = times(200, 1_000);
    let server = server();
    let url = |file: usize| format!("s3://bucket/{PREFIX}/{}", name_of(file));
    let open = |file: usize| Dataset::open_with_options(url(file), &options(&server, &[])).unwrap();
    let datasets: Vec<Dataset> = (0..FILES).map(open).collect();
    let files: Vec<Bytes> =
        (0..FILES).map(|file| fs::read(BUCKET.join(PREFIX).join(name_of(file))).unwrap().into()).collect();
    let loader = |dataset: &Dataset| {
        dataset.loader().shuffle(Shuffle::stored()).batch_size(BATCH).threads(1).build().unwrap()
    };
    let clean: Vec<Vec<u64>> = datasets.iter().map(|dataset| run(loader(dataset).epoch(0)).batches).collect();
    let mut found = 0;
    for seed in 0..turns {
        let file = draw(seed, 1) as usize % FILES;
        let Bit { group, column, offset, bit } = some_bit(&files[file], seed);
        let case = format!("seed {seed}: bit {bit} of byte {offset} of file {file}");
        let when = Match::get().key_ends_with(name_of(file)).covers(offset);
        let fault = Fault::FlipBit { offset, bit };

        // There are three tries, because a request that the previous case gave up may arrive late and use up
        // the fault.
        let is_met = (0..3).any(|_| {
            server.clear_rules();
            server.reset();
            server.add(when.clone().times(1), fault.clone());
            let once = run(loader(&datasets[file]).epoch(0));
            assert!(once.error.is_none(), "{case}: {:?}", once.error);
            assert!(once.batches == clean[file], "{case}: a flipped bit was delivered");
            // The server may count the request a little after its client has the bytes.
            let patience = Instant::now();
            while server.stats().faults == 0 && patience.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            server.stats().faults >= 1
        });
        assert!(is_met, "{case}: not met");

        server.clear_rules();
        server.add(when, fault);
        let always = run(loader(&datasets[file]).epoch(0));
        assert!(clean[file].starts_with(&always.batches), "{case}: a flipped bit was delivered");
        let error = always.error.unwrap_or_else(|| panic!("{case}: not found"));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{case}: {error}");
        let place = error.place();
        assert_eq!(place.file.as_deref(), Some(url(file).as_str()), "{case}: {error}");
        assert_eq!(place.row_group, Some(group), "{case}: {error}");
        assert_eq!(place.column.as_deref(), Some(column.as_str()), "{case}: {error}");
        found += 1;
    }
    println!("N13: {found} of {turns} flipped bits found, each mended by a second request where it passed");
}
