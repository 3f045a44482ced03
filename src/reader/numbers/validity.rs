//! The validity of values: a bit for each. No bits are stored until the first null comes.

use forebay_arrow::array::BooleanBufferBuilder;
use forebay_arrow::buffer::NullBuffer;

use super::values::Value;
use crate::reader::integers::{NumberRun, bits};

/// The number of rows whose bits are examined together.
const STEP: usize = 32;

/// The validity of the values that were read so far.
#[derive(Default)]
pub(in crate::reader) struct Validity {
    len: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl Validity {
    pub(in crate::reader) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::reader) fn append(&mut self, is_valid: bool, count: usize) {
        if self.bits.is_some() || !is_valid {
            self.bits().append_n(count, is_valid);
        }
        self.len += count;
    }

    /// Appends a run of levels of one bit, and returns the number of ones; `None` if a level is higher
    /// than 1.
    pub(in crate::reader) fn append_run(&mut self, run: NumberRun<'_>) -> Option<usize> {
        match run {
            NumberRun::Repeated(level, count) => {
                self.append(level == 1, count);
                (level <= 1).then_some(if level == 1 { count } else { 0 })
            }
            NumberRun::Packed(packed, count) => {
                let ones = ones(packed, 0, count);
                match ones == count {
                    true => self.append(true, count),
                    false => {
                        self.bits().append_packed_range(0..count, packed);
                        self.len += count;
                    }
                }
                Some(ones)
            }
        }
    }

    /// Appends a value to `out` for each index from `from` on: the next one of `dense` if the index is valid,
    /// and zero if it is null. `dense` has exactly the values of the valid indices.
    pub(super) fn spread<T: Value>(&self, from: usize, dense: &mut Vec<T>, out: &mut Vec<T>) {
        let Some(valid) = &self.bits else { return out.append(dense) };
        let begin = out.len();
        out.resize(begin + self.len - from, T::default());
        // The padding allows the loop to read [`STEP`] values at a time, even at the end.
        dense.resize(dense.len() + STEP, T::default());
        let mut next = 0;
        for (step, out) in out[begin..].chunks_mut(STEP).enumerate() {
            let valid = bits(valid.as_slice(), from + step * STEP);
            let dense = &dense[next..next + STEP];
            if valid as u32 == u32::MAX && out.len() == STEP {
                out.copy_from_slice(dense);
                next += STEP;
                continue;
            }
            let mut taken = 0;
            for (at, out) in out.iter_mut().enumerate() {
                let is_valid = valid >> at & 1;
                *out = dense[taken % STEP].kept_if(is_valid);
                taken += is_valid as usize;
            }
            next += taken;
        }
    }

    /// For each index from `from` on, whether it has a value or is null.
    pub(super) fn from(&self, from: usize) -> impl Iterator<Item = bool> + '_ {
        let bits = self.bits.as_ref().map(BooleanBufferBuilder::as_slice);
        (from..self.len).map(move |at| bits.is_none_or(|bits| bits[at / 8] >> (at % 8) & 1 != 0))
    }

    /// The validity of all values; `None` if all exist.
    pub(in crate::reader) fn finish(self) -> Option<NullBuffer> {
        let nulls = NullBuffer::new(self.bits?.finish());
        (nulls.null_count() > 0).then_some(nulls)
    }

    fn bits(&mut self) -> &mut BooleanBufferBuilder {
        let len = self.len;
        self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(len);
            bits.append_n(len, true);
            bits
        })
    }
}

/// The number of ones among `count` bits from `from` on.
fn ones(bytes: &[u8], from: usize, count: usize) -> usize {
    let steps = (0..count).step_by(STEP);
    let ones = |at: usize| {
        let counted = (count - at).min(STEP) as u32;
        (bits(bytes, from + at) & ((1 << counted) - 1)).count_ones() as usize
    };
    steps.map(ones).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_over_the_places_that_are_valid() {
        for (first, count) in [(0, 200), (3, 64), (40, 33), (64, 1), (5, 0)] {
            let is_valid = |at: usize| at % 3 != 1 || at / 64 == 1;
            let mut validity = Validity::default();
            validity.append(true, first);
            let packed: Vec<u8> = (0..count)
                .collect::<Vec<_>>()
                .chunks(8)
                .map(|eight| eight.iter().map(|&at| u8::from(is_valid(at)) << (at % 8)).sum())
                .collect();
            let there = (0..count).filter(|&at| is_valid(at)).count();
            assert_eq!(validity.append_run(NumberRun::Packed(&packed, count)), Some(there));
            let mut dense: Vec<u32> = (1..=there as u32).collect();
            let mut out = vec![7];
            validity.spread(first, &mut dense, &mut out);
            let mut next = 0;
            let expected = (0..count).map(|at| {
                next += u32::from(is_valid(at));
                if is_valid(at) { next } else { 0 }
            });
            assert_eq!(out, std::iter::once(7).chain(expected).collect::<Vec<_>>());
            let nulls = validity.finish().map_or(0, |nulls| nulls.null_count());
            assert_eq!(nulls, count - there);
        }
    }

    #[test]
    fn nothing_is_kept_before_the_first_null() {
        let mut validity = Validity::default();
        validity.append(true, 9);
        assert_eq!(validity.append_run(NumberRun::Repeated(1, 5)), Some(5));
        assert_eq!(validity.append_run(NumberRun::Packed(&[0xff, 0x0f], 12)), Some(12));
        assert!(validity.bits.is_none());
        assert_eq!(validity.append_run(NumberRun::Repeated(0, 2)), Some(0));
        assert_eq!(validity.append_run(NumberRun::Repeated(2, 1)), None);
        let nulls = Validity { len: 28, ..validity }.finish().unwrap();
        assert_eq!(nulls.iter().filter(|valid| !valid).count(), 3);
    }
}
