//! Rows that are repeated, dropped or left out are counted, and bad rows are reported with their place.

use forebay::{Loader, OnBadRow, Shard, Shuffle};

use crate::table::{Layout, TableOnDisk};

fn rank(table: &TableOnDisk, rank: u32, world: u32, batch: u64, drop_last: bool) -> Loader {
    let shard = Shard::new(rank, world).unwrap();
    let loader = table.open().loader().columns(["id"]).shard(shard).shuffle(Shuffle::stored().lanes(1));
    loader.batch_size(batch).drop_last(drop_last).threads(1).build().unwrap()
}

#[test]
fn rows_that_are_repeated_for_equal_steps_are_counted() {
    let table = TableOnDisk::write(Layout::even(1, 1, 13));
    // Thirteen rows for 4 ranks with 1 row each are three full steps, and a last step with 1 row for 4 ranks.
    let mut repeated = 0;
    for number in 0..4 {
        let loader = rank(&table, number, 4, 1, false);
        assert_eq!(loader.len(), 4);
        let rows: usize = loader.epoch(0).map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 4, "every rank has a row in every step");
        let (counted, planned) = (loader.stats().padded_rows, loader.plan(0).unwrap());
        let reads = planned.reads.unwrap();
        assert_eq!((planned.rows, reads.padded, reads.dropped), (4, counted, 0));
        repeated += counted;
        // The count includes both epochs.
        loader.epoch(1).for_each(|batch| drop(batch.unwrap()));
        assert_eq!(loader.stats().padded_rows, 2 * counted);
    }
    assert_eq!(repeated, 3);
}

#[test]
fn rows_that_fill_no_step_are_in_the_plan() {
    let table = TableOnDisk::write(Layout::even(1, 1, 13));
    for number in 0..2 {
        let loader = rank(&table, number, 2, 5, true);
        let plan = loader.plan(0).unwrap();
        let reads = plan.reads.unwrap();
        assert_eq!((plan.steps, plan.rows, reads.padded, reads.dropped), (1, 5, 0, 3));
        assert_eq!(loader.epoch(0).map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [5]);
    }
}

/// `at_most` holds for an epoch: rows that a batch left out still count in the next batch, but not in the
/// next epoch.
#[test]
fn rows_that_may_be_skipped_are_counted_through_an_epoch_and_anew_in_the_next() {
    let table = TableOnDisk::write(Layout { bad: Some(9), ..Layout::even(1, 4, 25) });
    let bad: Vec<u64> = (0..100).filter(|id| table.is_bad(*id)).collect();
    let build = |at_most| {
        let loader = table.open().loader().columns(["id", "image"]).batch_size(10).threads(2);
        let image = forebay::Image::resize(8, 8);
        loader.decode("image", image).on_bad_row(OnBadRow::skip(at_most)).build().unwrap()
    };
    let enough = build(bad.len() as u64);
    for epoch in 0..2 {
        let mut under_way = enough.epoch(epoch);
        under_way.by_ref().for_each(|batch| drop(batch.unwrap()));
        let skipped: Vec<u64> =
            under_way.skipped().iter().map(|bad| table.id_at(bad.error().place())).collect();
        assert_eq!(skipped, bad);
        assert_eq!(enough.stats().skipped_rows, (epoch + 1) * bad.len() as u64);
    }
    let error = build(bad.len() as u64 - 1).epoch(0).find_map(Result::err).unwrap();
    assert_eq!(table.id_at(error.place()), *bad.last().unwrap());
}
