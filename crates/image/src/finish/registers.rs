//! Converts 8-bit levels with the vector instructions of this processor.

#[cfg(target_arch = "x86_64")]
use super::group::LevelGroup;
use super::values::FinishKey;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// Vector instructions for the conversion, with their constants.
#[derive(Clone, Debug)]
pub(super) enum Registers {
    #[cfg(target_arch = "x86_64")]
    Avx512(Box<LevelGroup<{ avx512::LANES }>>),
    #[cfg(target_arch = "x86_64")]
    Avx2(Box<LevelGroup<{ avx2::LANES }>>),
}

impl Registers {
    /// All vector instructions that this processor has, the fastest first.
    pub(super) fn all(key: &FinishKey) -> impl Iterator<Item = Registers> {
        #[cfg(target_arch = "x86_64")]
        let all = [
            avx512::is_here().then(|| Registers::Avx512(Box::new(LevelGroup::new(key)))),
            avx2::is_here().then(|| Registers::Avx2(Box::new(LevelGroup::new(key)))),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let all: [Option<Registers>; 0] = {
            let _ = key;
            []
        };
        all.into_iter().flatten()
    }

    /// Converts interleaved pixels of an image with `count` pixels, starting at its pixel number `first`.
    /// Returns the number of converted levels, which are those of whole groups.
    #[allow(unused_variables)]
    pub(super) fn write(&self, first: usize, count: usize, pixels: &[u8], slot: &mut [u8]) -> usize {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Registers::Avx512(ref group) => avx512::write(group, group.placed(first, count), pixels, slot),
            #[cfg(target_arch = "x86_64")]
            Registers::Avx2(ref group) => avx2::write(group, group.placed(first, count), pixels, slot),
        }
    }
}
