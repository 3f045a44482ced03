//! Reads the pixels of a scan.

use std::ffi::{c_int, c_uint, c_void};

use super::super::block::Block;
use super::super::rows::{Functions, RegionRows};
use super::{DecodableScan, Decode, Raw, RawScan, ReadState, call};
use crate::jpeg::ffi::Region;

#[repr(C)]
struct RawRegion {
    x: c_uint,
    y: c_uint,
    width: c_uint,
    height: c_uint,
}

unsafe extern "C" {
    fn forebay_library_read(
        library: *mut Raw,
        region: RawRegion,
        decode: Decode,
        state: *mut c_void,
        out: *mut u8,
    ) -> c_int;
}

impl DecodableScan<'_> {
    /// Decodes a region, or the whole image, to `out`. Calls `decode` for every MCU up to the last one that
    /// is needed. `decode` must set all coefficients of the blocks that it is given; for an MCU that is
    /// skipped, it is given none. Returns false if the length of `out` does not fit, or if the library
    /// reported a warning.
    pub(in super::super) fn read<F>(self, region: Option<Region>, decode: F, out: &mut [u8]) -> bool
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        self.read_with(Functions::fastest(), region, decode, out)
    }

    /// Reads like [`read`](Self::read) with the given functions, or with the library if there are none.
    pub(in super::super) fn read_with<F>(
        self,
        functions: Option<Functions>,
        region: Option<Region>,
        mut decode: F,
        out: &mut [u8],
    ) -> bool
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        let RawScan { width, height, blocks_in_mcu, .. } = self.raw;
        let Region { x, y, width, height } = region.unwrap_or(Region { x: 0, y: 0, width, height });
        let inside = u64::from(x) + u64::from(width) <= u64::from(self.raw.width)
            && u64::from(y) + u64::from(height) <= u64::from(self.raw.height);
        let bytes = width as usize * height as usize * self.request.colours;
        if !inside || out.len() != bytes {
            return false;
        }
        let region = Region { x, y, width, height };
        let mut samples = std::mem::take(&mut self.library.samples);
        let rows = functions.and_then(|functions| RegionRows::new(&self, region, functions));
        let made = rows.map(|rows| rows.read(&mut samples, &mut decode, out).is_some());
        self.library.samples = samples;
        if let Some(made) = made {
            return made;
        }
        let mut state = ReadState { decode: &mut decode, blocks_in_mcu: blocks_in_mcu as usize };
        // SAFETY: the scan has been started but not read. The library writes `height` rows of `width` pixels
        // to `out`, which has exactly that size. It calls back only during this call, with this state.
        let read = unsafe {
            forebay_library_read(
                self.library.raw.as_ptr(),
                RawRegion { x, y, width, height },
                call::<F>,
                (&raw mut state).cast(),
                out.as_mut_ptr(),
            )
        };
        read != 0
    }
}
