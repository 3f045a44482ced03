//! The coefficients of whole images: the library reads them, and writes them as a JPEG.

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
    /// Reads a JPEG of any kind that the library decodes, and calls `take` with the blocks of each MCU of all
    /// components, from the first to the last. Returns whether it succeeded: the file is valid and has all
    /// bits of every coefficient, and each MCU has `blocks_in_mcu` blocks.
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
        // SAFETY: the decompressor is live and idle, and idle again afterwards. It reads the bytes during
        // this call alone, and calls back only during it, with this state and with this number of blocks.
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
    /// Writes a JPEG of the size, sampling and quantisation of this one, with the blocks that `decode` fills:
    /// it is called for every MCU, with zeros. `exif` becomes the segment APP1, unless it is empty. Each
    /// component gets a scan of its own if they are to be `apart`. Returns `None` if the library refuses a
    /// value.
    pub(in super::super) fn write<F>(self, mut decode: F, apart: bool, exif: &[u8]) -> Option<Vec<u8>>
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        let mut state = ReadState { decode: &mut decode, blocks_in_mcu: self.raw.blocks_in_mcu as usize };
        let mut out = RawBytes { start: std::ptr::null_mut(), length: 0 };
        // SAFETY: the scan has been started and not been read. The library calls back only during this call,
        // with this state, and sets `out` where it returns 1.
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
        // SAFETY: the library says that this number of bytes exist, and they are freed only below.
        let jpeg = NonNull::new(out.start)
            .map(|start| unsafe { std::slice::from_raw_parts(start.as_ptr(), out.length) }.to_vec());
        // SAFETY: the bytes are ours, and not used after this.
        unsafe { forebay_bytes_free(out) };
        jpeg
    }
}
