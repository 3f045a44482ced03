//! Joins small items of a stream into bunches, without waiting for more items.

use std::task::Poll;

use futures::{Stream, StreamExt, stream};

/// Joins neighbouring items of a stream into bunches, each of which costs at most `most`. The first bunch has
/// one item, the next ones up to two, four and so on, so that the first items do not wait for many others. An
/// item that costs more than `most` is a bunch by itself. A bunch ends early if the next item is not ready.
pub(super) fn bunches<T>(
    items: impl Stream<Item = T> + Send,
    cost: impl Fn(&T) -> u64,
    most: u64,
) -> impl Stream<Item = Vec<T>> {
    let mut items = Box::pin(items.fuse());
    let mut length = 1usize;
    let mut next: Option<T> = None;
    stream::poll_fn(move |context| {
        let mut bunch = Vec::new();
        let mut sum = 0u64;
        loop {
            let item = match next.take() {
                Some(item) => item,
                None => match items.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => item,
                    Poll::Pending if bunch.is_empty() => return Poll::Pending,
                    Poll::Ready(None) if bunch.is_empty() => return Poll::Ready(None),
                    Poll::Pending | Poll::Ready(None) => return Poll::Ready(Some(bunch)),
                },
            };
            sum = sum.saturating_add(cost(&item));
            if !bunch.is_empty() && sum > most {
                next = Some(item);
                return Poll::Ready(Some(bunch));
            }
            bunch.push(item);
            if sum >= most || bunch.len() >= length {
                length = length.saturating_mul(2);
                return Poll::Ready(Some(bunch));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::channel::mpsc::unbounded;

    use super::*;

    fn lengths(costs: &[u64], most: u64) -> Vec<usize> {
        let bunches = bunches(stream::iter(costs.to_vec()), |cost| *cost, most).collect::<Vec<_>>();
        let bunches = bunches.now_or_never().unwrap();
        assert_eq!(bunches.concat(), costs);
        bunches.iter().map(Vec::len).collect()
    }

    #[test]
    fn bunches_grow_to_what_they_may_cost_and_stay_there() {
        let found = lengths(&[1; 1_007], 10);
        assert_eq!(found[..5], [1, 2, 4, 8, 10]);
        assert!(found.len() > 100 && found[4..found.len() - 1].iter().all(|length| *length == 10));
        assert_eq!(found[found.len() - 1], 2);
    }

    #[test]
    fn what_costs_more_is_alone() {
        assert_eq!(lengths(&[3, 20, 3, 3, 10, 4, 4, 4], 10), [1, 1, 2, 1, 2, 1]);
        assert_eq!(lengths(&[5; 200], 0), [1; 200]);
    }

    #[test]
    fn nothing_waits_for_what_is_not_ready() {
        let (send, items) = unbounded();
        let mut bunches = Box::pin(bunches(items, |_| 1, 100));
        (0..4).for_each(|item| send.unbounded_send(item).unwrap());
        let mut next = || bunches.next().now_or_never();
        assert_eq!(
            [next(), next(), next()],
            [Some(Some(vec![0])), Some(Some(vec![1, 2])), Some(Some(vec![3]))]
        );
        assert_eq!(next(), None);
        send.unbounded_send(4).unwrap();
        assert_eq!(next(), Some(Some(vec![4])));
        drop(send);
        assert_eq!(next(), Some(None));
    }
}
