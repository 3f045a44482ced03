//! libjpeg-turbo's side: its entropy decoder called by itself, its coefficients, and files rewritten with restart markers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::ptr::{null_mut, slice_from_raw_parts};

use turbojpeg_sys as tj;

use crate::decoder::Block;

const JPEG_LIB_VERSION: c_int = 62;

/// `struct jpeg_decompress_struct` of libjpeg-turbo 3.1 on 64-bit machines, whose library part the crate contains and
/// does not declare. The library refuses another size.
#[repr(C)]
struct Info {
    err: *mut c_void,
    before_mcus: [usize; 58],
    mcus_per_row: c_uint,
    mcu_rows: c_uint,
    blocks_in_mcu: c_int,
    before_entropy: [c_uint; 27],
    entropy: *mut Entropy,
    behind_entropy: [usize; 4],
}

/// The head of `struct jpeg_entropy_decoder`.
#[repr(C)]
struct Entropy {
    start_pass: *const c_void,
    decode_mcu: unsafe extern "C" fn(*mut Info, *mut *mut Block) -> c_int,
}

unsafe extern "C" {
    fn jpeg_std_error(err: *mut c_void) -> *mut c_void;
    fn jpeg_CreateDecompress(info: *mut Info, version: c_int, size: usize);
    fn jpeg_mem_src(info: *mut Info, encoded: *const u8, length: c_ulong);
    fn jpeg_read_header(info: *mut Info, require_image: c_int) -> c_int;
    fn jpeg_start_decompress(info: *mut Info) -> c_int;
    fn jpeg_abort_decompress(info: *mut Info);
    fn jpeg_destroy_decompress(info: *mut Info);
}

/// The library's entropy decoder without what comes before and behind it.
///
/// An error inside of the library ends the program with its message, as its default handler does.
pub(crate) struct Library {
    info: Box<Info>,
    /// `struct jpeg_error_mgr`, and some.
    _errors: Box<[u64; 64]>,
}

impl Library {
    pub(crate) fn new() -> Library {
        let mut errors = Box::new([0u64; 64]);
        // SAFETY: all zeros are a value of each of its fields but `decode_mcu`, which is behind a pointer.
        let mut info: Box<Info> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: both structures are as large as the library says or larger, and live as long as the decompressor.
        unsafe {
            info.err = jpeg_std_error(errors.as_mut_ptr().cast());
            jpeg_CreateDecompress(&mut *info, JPEG_LIB_VERSION, size_of::<Info>());
        }
        Library { info, _errors: errors }
    }

    /// Reads the header and makes the library ready for the first MCU.
    pub(crate) fn open<'a>(&'a mut self, encoded: &'a [u8]) -> Scan<'a> {
        // SAFETY: the decompressor is live and idle, and the bytes outlive the scan.
        unsafe {
            jpeg_mem_src(&mut *self.info, encoded.as_ptr(), encoded.len() as c_ulong);
            jpeg_read_header(&mut *self.info, 1);
            jpeg_start_decompress(&mut *self.info);
        }
        Scan { info: &mut self.info }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the decompressor is live and not used after this.
        unsafe { jpeg_destroy_decompress(&mut *self.info) }
    }
}

/// A scan between two MCU rows.
pub(crate) struct Scan<'a> {
    info: &'a mut Info,
}

impl Scan<'_> {
    /// Decodes an MCU row, block by block as the scan has them.
    pub(crate) fn decode_row(&mut self, blocks: &mut [Block]) {
        let in_mcu = self.info.blocks_in_mcu as usize;
        assert_eq!(blocks.len(), self.info.mcus_per_row as usize * in_mcu, "the blocks of an MCU row");
        for mcu in blocks.chunks_exact_mut(in_mcu) {
            // The library asks for zeros, and clears them MCU by MCU itself.
            mcu.fill([0; 64]);
            let mut pointers = [null_mut(); 10];
            for (pointer, block) in pointers.iter_mut().zip(mcu) {
                *pointer = block as *mut Block;
            }
            // SAFETY: the pass has begun, and there is a block for each of the MCU's, at most 10.
            unsafe { ((*self.info.entropy).decode_mcu)(self.info, pointers.as_mut_ptr()) };
        }
    }

    /// Passes over an MCU row as `jpeg_skip_scanlines` does.
    pub(crate) fn skip_row(&mut self) {
        for _ in 0..self.info.mcus_per_row {
            // SAFETY: the pass has begun; without blocks the coefficients are thrown away.
            unsafe { ((*self.info.entropy).decode_mcu)(self.info, null_mut()) };
        }
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        // SAFETY: the decompressor is live; this makes it idle.
        unsafe { jpeg_abort_decompress(self.info) }
    }
}

/// What `jpeg_read_coefficients` reads, for each component its rows of blocks.
pub(crate) fn coefficients(encoded: &[u8]) -> Vec<Vec<Vec<Block>>> {
    unsafe extern "C" fn copy(
        coefficients: *mut i16,
        array: tj::tjregion,
        _: tj::tjregion,
        component: c_int,
        _: c_int,
        transform: *mut tj::tjtransform,
    ) -> c_int {
        // SAFETY: the library calls this while `coefficients` below waits, with `w` * 8 coefficients in a row of blocks.
        let (all, row) = unsafe {
            let all = &mut *(*transform).data.cast::<Vec<Vec<Vec<Block>>>>();
            (all, &*slice_from_raw_parts(coefficients, array.w as usize * 8))
        };
        let component = component as usize;
        all.resize(all.len().max(component + 1), vec![]);
        all[component].push(row.as_chunks().0.to_vec());
        0
    }
    let mut all: Vec<Vec<Vec<Block>>> = vec![];
    transform(encoded, tj::TJXOPT_NOOUTPUT as c_int, Some(copy), (&raw mut all).cast(), 0);
    all
}

/// The same coefficients with a restart marker behind each MCU row.
pub(crate) fn with_restart_markers(encoded: &[u8]) -> Vec<u8> {
    transform(encoded, 0, None, null_mut(), 1)
}

fn transform(
    encoded: &[u8],
    options: c_int,
    custom_filter: tj_filter,
    data: *mut c_void,
    restart_rows: c_int,
) -> Vec<u8> {
    let region = tj::tjregion { x: 0, y: 0, w: 0, h: 0 };
    let transform = tj::tjtransform {
        r: region,
        op: tj::TJXOP_TJXOP_NONE as c_int,
        options,
        data,
        customFilter: custom_filter,
    };
    let (mut written, mut length) = (null_mut(), 0);
    // SAFETY: the handle lives until it is destroyed, the library reads `len` bytes and says how many it has written to
    // memory of its own, which is copied before it is freed.
    unsafe {
        let handle = tj::tj3Init(tj::TJINIT_TJINIT_TRANSFORM as c_int);
        tj::tj3Set(handle, tj::TJPARAM_TJPARAM_RESTARTROWS as c_int, restart_rows);
        let (bytes, count) = (encoded.as_ptr(), encoded.len() as _);
        let rc = tj::tj3Transform(handle, bytes, count, 1, &mut written, &mut length, &transform);
        assert_eq!(rc, 0, "a JPEG that the library reads");
        let copied = if written.is_null() {
            vec![]
        } else {
            (*slice_from_raw_parts(written, length as usize)).to_vec()
        };
        tj::tj3Free(written.cast());
        tj::tj3Destroy(handle);
        copied
    }
}

#[allow(non_camel_case_types, reason = "the crate has no name for the type of this field")]
type tj_filter = Option<
    unsafe extern "C" fn(*mut i16, tj::tjregion, tj::tjregion, c_int, c_int, *mut tj::tjtransform) -> c_int,
>;

/// Encodes RGB pixels with the TurboJPEG chroma sampling.
pub(crate) fn encode(rgb: &[u8], width: u32, height: u32, quality: c_int, sampling: c_int) -> Vec<u8> {
    let (mut written, mut length) = (null_mut(), 0);
    assert_eq!(rgb.len(), width as usize * height as usize * 3, "the pixels of an image");
    // SAFETY: as above, and the library reads the pixels that the assertion counts.
    unsafe {
        let handle = tj::tj3Init(tj::TJINIT_TJINIT_COMPRESS as c_int);
        tj::tj3Set(handle, tj::TJPARAM_TJPARAM_QUALITY as c_int, quality);
        tj::tj3Set(handle, tj::TJPARAM_TJPARAM_SUBSAMP as c_int, sampling);
        let (w, h, rgb8) = (width as c_int, height as c_int, tj::TJPF_TJPF_RGB);
        let rc = tj::tj3Compress8(handle, rgb.as_ptr(), w, 0, h, rgb8, &mut written, &mut length);
        assert_eq!(rc, 0, "pixels that the library encodes");
        let copied = (*slice_from_raw_parts(written, length as usize)).to_vec();
        tj::tj3Free(written.cast());
        tj::tj3Destroy(handle);
        copied
    }
}

/// The library's whole way from bytes to the RGB pixels of a crop.
pub(crate) struct Pixels {
    handle: tj::tjhandle,
    out: Vec<u8>,
}

impl Pixels {
    pub(crate) fn new(most: usize) -> Pixels {
        // SAFETY: no precondition.
        Pixels {
            handle: unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) },
            out: vec![0; most * 3],
        }
    }

    pub(crate) fn decode(&mut self, encoded: &[u8], (x, y, w, h): (u32, u32, u32, u32)) {
        assert!(w as usize * h as usize * 3 <= self.out.len(), "room for the crop");
        let region = tj::tjregion { x: x as c_int, y: y as c_int, w: w as c_int, h: h as c_int };
        let (bytes, length) = (encoded.as_ptr(), encoded.len() as _);
        // SAFETY: the handle is live, the library checks the region, and there is room for its pixels.
        let rc = unsafe {
            tj::tj3DecompressHeader(self.handle, bytes, length)
                + tj::tj3SetCroppingRegion(self.handle, region)
                + tj::tj3Decompress8(self.handle, bytes, length, self.out.as_mut_ptr(), 0, tj::TJPF_TJPF_RGB)
        };
        assert_eq!(rc, 0, "a crop that the library decodes");
    }
}

impl Drop for Pixels {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used after this.
        unsafe { tj::tj3Destroy(self.handle) }
    }
}
