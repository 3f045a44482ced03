//! Chooses the fastest reader for this machine.

use super::super::library::DecodableScan;
use super::expand;
use super::read::{ReadMcu, Reader};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// The reader of packed coefficients; `None` if they do not belong to the scan of their header, whose MCU has
/// blocks of these components.
pub(in super::super) fn reader<'a>(
    packed: &'a [u8],
    scan: &DecodableScan<'_>,
    components: &'a [u8],
) -> Option<Reader<'a>> {
    Reader::new(packed, scan, components, fastest())
}

/// The fastest function on this machine. Each function reads a whole MCU, so that all of its code is compiled
/// for the machine.
fn fastest() -> ReadMcu {
    #[cfg(target_arch = "x86_64")]
    if let Some(fast) = avx512::read_mcu().or_else(avx2::read_mcu) {
        return fast;
    }
    |reader, blocks| reader.mcu(blocks, (expand::plain, expand::count))
}
