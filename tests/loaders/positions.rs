//! The content of a saved position, and the positions that are refused.

use forebay::arrow::array::AsArray;
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::{Op, Term};
use forebay::{ErrorKind, Filter, Loader, LoaderBuilder, Position, Shard, Shuffle};

use crate::table::{Layout, TableOnDisk};

/// Changes a position.
type Damage = &'static dyn Fn(&mut Position);

fn builder(table: &TableOnDisk, shuffle: Shuffle) -> LoaderBuilder {
    table.open().loader().columns(["id"]).shuffle(shuffle).batch_size(10).threads(1)
}

fn ids(loader: &Loader, steps: usize) -> Vec<i64> {
    let batches = loader.next_epoch().take(steps);
    batches.flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn windowed() -> Shuffle {
    Shuffle::seeded(5).window_rows(60)
}

#[test]
fn a_position_brings_its_lanes_and_window_where_they_were_left_open() {
    let table = TableOnDisk::write(Layout::even(2, 10, 20));
    let saved: Vec<Loader> = (0..4)
        .map(|rank| builder(&table, windowed()).shard(Shard::new(rank, 4).unwrap()).build().unwrap())
        .collect();
    let mut seen: Vec<i64> = saved.iter().flat_map(|loader| ids(loader, 3)).collect();
    let state = saved[0].position();
    assert_eq!((state.sources[0].order.lanes, state.row), (4, 120));
    assert!(saved.iter().all(|loader| loader.position() == state));

    // The window of the position also replaces the default window, which would hold all row groups here.
    for shuffle in [windowed(), Shuffle::seeded(5)] {
        let alone = builder(&table, shuffle).build().unwrap();
        assert_eq!(alone.position().sources[0].order.lanes, 1);
        alone.restore(&state).unwrap();
        let mut taken = alone.position();
        assert_eq!(taken.split.world, 1, "its own batches");
        taken.split = state.split;
        assert_eq!(taken, state, "lanes, window, epoch and row");
        assert_eq!(alone.plan(0).unwrap().lanes, 4);
        let rest = ids(&alone, usize::MAX);
        assert_eq!(rest.len(), 280);
        if shuffle == windowed() {
            seen.extend(rest);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..400).collect::<Vec<_>>());
}

#[test]
fn lanes_and_a_window_that_were_said_are_not_replaced_by_those_of_a_position() {
    let table = TableOnDisk::write(Layout::even(1, 10, 20));
    let state = builder(&table, windowed().lanes(2)).build().unwrap().position();
    for (other, what) in [(windowed().lanes(3), "lanes 2"), (windowed().window_rows(20).lanes(2), "window")] {
        let loader = builder(&table, other).build().unwrap();
        let before = loader.position();
        let error = loader.restore(&state).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch);
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(loader.position(), before, "a refusal changes nothing");
    }
}

#[test]
fn a_position_of_another_order_or_with_numbers_that_cannot_be_is_refused() {
    let table = TableOnDisk::write(Layout::even(1, 10, 20));
    let filtered = |bound: i64| Filter::all_of([Term::new("id", Op::Less, bound)]);
    let loader = builder(&table, windowed()).filter(filtered(150)).build().unwrap();
    let state = loader.position();
    loader.restore(&state).unwrap();
    let wrong: [(&str, Damage); 11] = [
        ("version", &|state| state.version += 1),
        ("fingerprint", &|state| state.sources[0].fingerprint.push('0')),
        ("shuffle", &|state| state.sources[0].order.shuffle = "exact".into()),
        ("seed", &|state| state.sources[0].order.seed += 1),
        ("no filter", &|state| state.sources[0].order.filter = None),
        ("filter", &|state| state.sources[0].order.filter.iter_mut().for_each(|filter| filter.push(' '))),
        ("rows", &|state| state.sources[0].order.rows -= 1),
        ("no lanes", &|state| state.sources[0].order.lanes = 0),
        ("lanes", &|state| state.sources[0].order.lanes = 151),
        ("pool", &|state| state.sources[0].order.pool = 0),
        ("row", &|state| state.row = 151),
    ];
    for (what, damage) in wrong {
        let mut other = state.clone();
        damage(&mut other);
        let error = loader.restore(&other).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::StateMismatch, "{what}: {error}");
        assert_eq!(loader.position(), state, "{what}");
    }
    // The seed of an exact shuffle must match, too.
    let exact = |seed| builder(&table, Shuffle::exact(seed)).build().unwrap();
    let error = exact(1).restore(&exact(2).position()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateMismatch);
}

#[test]
fn a_position_that_leaves_no_step_goes_to_the_next_epoch() {
    let table = TableOnDisk::write(Layout::even(1, 5, 20));
    let dropping = |batch| builder(&table, windowed()).batch_size(batch).drop_last(true).build().unwrap();
    let small = dropping(30);
    // The first position is after the last of 3 steps of 30 rows. The second is after 2 of them, so 40 rows
    // are left, which do not fill a step of 50.
    let mut state = small.position();
    for (row, batch, expected) in [(90, 30, (4, 0)), (60, 50, (4, 0)), (60, 40, (3, 60)), (100, 30, (4, 0))] {
        (state.epoch, state.row) = (3, row);
        let loader = dropping(batch);
        loader.restore(&state).unwrap();
        assert_eq!(
            (loader.position().epoch, loader.position().row),
            expected,
            "row {row}, batches of {batch}"
        );
        let epoch = loader.next_epoch();
        assert_eq!(epoch.number(), expected.0);
        assert!(epoch.remaining() > 0);
        assert_eq!(epoch.remaining(), epoch.count() as u64);
    }
}

#[test]
fn epochs_are_numbered_on_from_the_last_one() {
    let table = TableOnDisk::write(Layout::even(1, 5, 20));
    let loader = builder(&table, windowed()).build().unwrap();
    assert_eq!(loader.next_epoch().number(), 0);
    assert_eq!(loader.next_epoch().number(), 1, "one that was left counts");
    assert_eq!(loader.epoch(7).count(), 10);
    assert_eq!((loader.position().epoch, loader.position().row), (8, 0));
    assert_eq!(loader.next_epoch().number(), 8);
    let mut state = loader.position();
    (state.epoch, state.row) = (2, 40);
    loader.restore(&state).unwrap();
    // Any epoch but the restored one starts from its beginning, and so does the restored one the second time.
    assert_eq!(loader.epoch(4).remaining(), 10);
    loader.restore(&state).unwrap();
    assert_eq!((loader.epoch(2).remaining(), loader.epoch(2).remaining()), (6, 10));
}
