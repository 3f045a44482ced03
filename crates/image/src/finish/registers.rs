//! Converts levels of 8 bits in the widest registers of this machine.

#[cfg(target_arch = "x86_64")]
use super::group::LevelGroup;
use super::values::FinishKey;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// The instructions with which levels are converted.
#[derive(Clone, Debug)]
pub(super) enum Registers {
    #[cfg(target_arch = "x86_64")]
    Avx512(Box<LevelGroup<{ avx512::LANES }>>),
    #[cfg(target_arch = "x86_64")]
    Avx2(Box<LevelGroup<{ avx2::LANES }>>),
}

impl Registers {
    /// All instructions that this machine has, from the fastest on.
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

    /// Converts interleaved pixels, from the pixel `first` of an image with `count` pixels on. Returns the
    /// number of levels that it has converted: those of whole groups.
    #[allow(unused_variables)]
    pub(super) fn write(&self, (first, count): (usize, usize), pixels: &[u8], slot: &mut [u8]) -> usize {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Registers::Avx512(ref group) => avx512::write(group, group.placed(first, count), pixels, slot),
            #[cfg(target_arch = "x86_64")]
            Registers::Avx2(ref group) => avx2::write(group, group.placed(first, count), pixels, slot),
        }
    }
}
