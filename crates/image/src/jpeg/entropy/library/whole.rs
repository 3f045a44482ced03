//! Reads all coefficients of a JPEG with the library, and writes coefficients as a JPEG.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::super::block::Block;
use super::super::request::Request;
use super::{DecodableScan, Decode, Library, Raw, ReadState, call};

/// The struct `forebay_bytes` of `write.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawBytes {
    start: *mut u8,
    length: usize,
}

unsafe extern "C" {
    fn forebay_library_coefficients(
        library: *mut Raw,
        encoded: *const u8,
        length: usize,
        memory: usize,
        blocks: c_int,
        take: Decode,
        state: *mut c_void,
    ) -> c_int;
    fn forebay_library_write(
        library: *mut Raw,
        decode: Decode,
        state: *mut c_void,
        apart: c_int,
        exif: *const u8,
        exif_length: usize,
        out: *mut RawBytes,
    ) -> c_int;
    fn forebay_bytes_free(bytes: RawBytes);
}

impl Library {
    /// Reads a JPEG of any kind that the library decodes, and calls `take` with the blocks of each MCU.
    /// Returns true if the file is valid, has all bits of every coefficient, and has `blocks_in_mcu` blocks
    /// in each MCU.
    pub(in super::super) fn coefficients<F>(
        &mut self,
        request: Request<'_>,
        blocks_in_mcu: usize,
        mut take: F,
    ) -> bool
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        let mut state = ReadState { decode: &mut take, blocks_in_mcu };
        // SAFETY: the decompressor is idle before and after the call. It reads the bytes and calls back only
        // during the call, with this state and this number of blocks.
        let read = unsafe {
            forebay_library_coefficients(
                self.raw.as_ptr(),
                request.encoded.as_ptr(),
                request.encoded.len(),
                request.memory,
                blocks_in_mcu as c_int,
                call::<F>,
                (&raw mut state).cast(),
            )
        };
        read != 0
    }
}

impl DecodableScan<'_> {
    /// Writes a JPEG with the size, sampling and quantisation of this scan. `decode` is called for every MCU
    /// and fills its blocks, which are zeros before. `exif` becomes the segment APP1 unless it is empty. With
    /// `apart`, each component gets its own scan. Returns `None` if the library refuses a value.
    pub(in super::super) fn write<F>(self, mut decode: F, apart: bool, exif: &[u8]) -> Option<Vec<u8>>
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        let mut state = ReadState { decode: &mut decode, blocks_in_mcu: self.raw.blocks_in_mcu as usize };
        let mut out = RawBytes { start: std::ptr::null_mut(), length: 0 };
        // SAFETY: the scan has been started but not read. The library calls back only during this call, with
        // this state, and sets `out` if it returns 1.
        let written = unsafe {
            forebay_library_write(
                self.library.raw.as_ptr(),
                call::<F>,
                (&raw mut state).cast(),
                c_int::from(apart),
                exif.as_ptr(),
                exif.len(),
                &raw mut out,
            )
        };
        if written == 0 {
            return None;
        }
        // SAFETY: the library has allocated `out.length` bytes at `out.start`, and they are freed only below.
        let jpeg = NonNull::new(out.start)
            .map(|start| unsafe { std::slice::from_raw_parts(start.as_ptr(), out.length) }.to_vec());
        // SAFETY: this function owns the bytes and does not use them afterwards.
        unsafe { forebay_bytes_free(out) };
        jpeg
    }
}
