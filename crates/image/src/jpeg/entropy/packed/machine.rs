//! Chooses the fastest reader for this machine.

use super::super::library::DecodableScan;
use super::expand;
use super::read::{ReadMcu, Reader};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// Makes a reader of packed coefficients. `scan` was started from their header, and `components` has the
/// component of each block of an MCU. Returns `None` if the coefficients do not fit the scan.
pub(in super::super) fn reader<'a>(
    packed: &'a [u8],
    scan: &DecodableScan<'_>,
    components: &'a [u8],
) -> Option<Reader<'a>> {
    Reader::new(packed, scan, components, fastest())
}

/// The fastest function that this machine can run. Each function reads a whole MCU, so that the compiler can
/// use the machine's instructions in all of that code.
fn fastest() -> ReadMcu {
    #[cfg(target_arch = "x86_64")]
    if let Some(fast) = avx512::read_mcu().or_else(avx2::read_mcu) {
        return fast;
    }
    |reader, blocks| reader.mcu(blocks, expand::plain, expand::count)
}
