//! How well an order mixes: the number of row groups in a batch, compared with a batch that is drawn
//! uniformly.

use std::collections::HashSet;
use std::sync::Arc;

use super::deal::Deals;
use super::order::EpochOrder;
use super::order_spec::OrderSpec;
use super::spec::{Shard, Shuffle};
use super::split::Split;

/// The number of steps that are sampled from an epoch.
const SAMPLED_STEPS: u64 = 16;

/// `parts_of_a_batch` plans an order in which each lane has the parts of this number of pools, or fewer if
/// the epoch has fewer parts. It equals the number of sampled steps, so few of these steps are at the
/// beginning or the end of the order, where rows are mixed differently.
const SAMPLED_POOLS: u64 = SAMPLED_STEPS;

/// The number of row groups from which a rank's batch has rows, on average over some steps of an epoch.
pub fn row_groups_of_a_batch(order: &EpochOrder, split: Split) -> f64 {
    // Full steps are sampled, if there are any: a short last step would say little about mixing.
    let steps = (split.rows / split.global_batch).max(1);
    let samples = steps.min(SAMPLED_STEPS);
    let groups = |sample| row_groups_of_step(order, split, (2 * sample + 1) * steps / (2 * samples));
    (0..samples).map(groups).sum::<u64>() as f64 / samples as f64
}

/// The number of row groups from which a rank's batch has rows in one step.
pub(crate) fn row_groups_of_step(order: &EpochOrder, split: Split, step: u64) -> u64 {
    let order = order.clone();
    // The walk gives places in the deals of the parts, the orders in which their rows are delivered. The
    // rows at these places do not matter here, and finding them would need a permutation of each part.
    let mut walk = Deals::new(move || order.clone()).walk(split, step * split.global_batch);
    let batch = walk.next().unwrap_or_default();
    batch.parts.iter().map(|part| part.group).collect::<HashSet<_>>().len() as u64
}

/// The average number of parts from which a rank's batch has rows, if each part has `rows` rows, the rank
/// reads `lanes` lanes with a pool of `pool` parts each, and has no more than `most` parts in an epoch.
pub(crate) fn parts_of_a_batch(rows: u64, pool: u64, lanes: u64, batch: u64, most: u64) -> f64 {
    let parts = (SAMPLED_POOLS * lanes * pool).min(most).max(batch.div_ceil(rows)).max(1);
    let counts: Arc<[u32]> = (0..parts).map(|_| rows as u32).collect();
    let window = Shuffle::seeded(0).window_rows(rows * pool);
    let spec = OrderSpec::new(&window, &counts, lanes as u32, 0);
    let rows = rows * parts;
    let (shard, lanes) = (Shard::default(), spec.lanes());
    let split = Split { rows, lanes, shard, global_batch: batch.min(rows), drop_last: false };
    row_groups_of_a_batch(&EpochOrder::new(counts, &spec, 1), split)
}

/// The average number of classes in `drawn` rows that are drawn uniformly without replacement from `rows`
/// rows, given the number of rows of each class.
pub fn expected_distinct(classes: impl IntoIterator<Item = u64>, rows: u64, drawn: u64) -> f64 {
    // The chance that no row of a class is drawn is a product of `drawn` factors that differ little, so the
    // middle one is used for all of them.
    let middle = rows as f64 - (drawn.saturating_sub(1)) as f64 / 2.0;
    let shown = |of_class: u64| {
        if drawn + of_class > rows {
            return 1.0;
        }
        1.0 - (1.0 - of_class as f64 / middle).max(0.0).powf(drawn as f64)
    };
    classes.into_iter().map(shown).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: u64 = 50;
    const GROUP: u32 = 20;
    const ROWS: u64 = GROUPS * GROUP as u64;

    fn of_a_batch(shuffle: Shuffle, epoch: u64) -> f64 {
        let counts = [GROUP; GROUPS as usize];
        let order = EpochOrder::new(counts, &OrderSpec::new(&shuffle, &counts, 1, 1), epoch);
        let split =
            Split { rows: ROWS, lanes: 1, shard: Shard::default(), global_batch: 60, drop_last: false };
        row_groups_of_a_batch(&order, split)
    }

    #[test]
    fn a_batch_of_the_exact_order_is_of_as_many_groups_as_one_drawn_uniformly() {
        let uniform = expected_distinct((0..GROUPS).map(|_| GROUP.into()), ROWS, 60);
        let trials = 20;
        let exact =
            (0..trials).map(|epoch| of_a_batch(Shuffle::exact(1), epoch)).sum::<f64>() / trials as f64;
        assert!((exact - uniform).abs() < 0.5, "{exact} and {uniform}");
        assert_eq!(of_a_batch(Shuffle::stored(), 0), 3.0, "three whole groups");
        let windowed = of_a_batch(Shuffle::seeded(1).window_rows(200), 1);
        assert!((4.0..uniform - 5.0).contains(&windowed), "{windowed}, {uniform}");
    }

    /// A permutation of these rows would take minutes.
    #[test]
    fn a_large_row_group_is_not_permuted_to_know_how_it_is_mixed() {
        let counts = [4_000_000_000];
        let order = EpochOrder::new(counts, &OrderSpec::new(&Shuffle::seeded(1), &counts, 1, 1), 1);
        let rows = u64::from(counts[0]);
        let split = Split { rows, lanes: 1, shard: Shard::default(), global_batch: 60, drop_last: false };
        assert_eq!(row_groups_of_a_batch(&order, split), 1.0);
    }

    /// The window has ten row groups, and is full from the beginning in all epochs but the first.
    #[test]
    fn the_first_batches_of_a_run_are_of_few_row_groups() {
        let counts = [GROUP; GROUPS as usize];
        let split =
            Split { rows: ROWS, lanes: 1, shard: Shard::default(), global_batch: 20, drop_last: false };
        let first = |epoch| {
            let spec = OrderSpec::new(&Shuffle::seeded(1).window_rows(200), &counts, 1, 1);
            row_groups_of_step(&EpochOrder::new(counts, &spec, epoch), split, 0)
        };
        assert!((2..=5).contains(&first(0)), "{}", first(0));
        assert!((6..=10).contains(&first(1)), "{}", first(1));
    }

    #[test]
    fn all_are_seen_where_all_are_drawn_and_none_where_none_is() {
        assert_eq!(expected_distinct([3, 4], 7, 7), 2.0);
        assert_eq!(expected_distinct([3, 4], 7, 0), 0.0);
    }
}
