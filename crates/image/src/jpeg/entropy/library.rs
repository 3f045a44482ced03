//! The interface of the C files in this folder: libjpeg-turbo without its Huffman decoder, as safe calls on
//! slices.
#![allow(unsafe_code)]

mod read;
mod whole;

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use super::block::{BLOCKS, Block, COMPONENTS};
use super::request::Request;
use super::tables::Definition;

/// The struct `forebay_library` of `library.h`.
#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

/// The struct `forebay_scan` of `library.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawScan {
    begin: usize,
    width: c_uint,
    height: c_uint,
    mcus_per_row: c_uint,
    mcu_rows: c_uint,
    restart_interval: c_uint,
    components: c_uint,
    blocks_in_mcu: c_uint,
    component_of_block: [c_uint; BLOCKS],
    dc: [*const Definition; COMPONENTS],
    ac: [*const Definition; COMPONENTS],
    across: [c_uint; COMPONENTS],
    down: [c_uint; COMPONENTS],
    quantization: [*const [u16; 64]; COMPONENTS],
    side: [c_uint; COMPONENTS],
    luma_and_chroma: c_uint,
}

type Decode = unsafe extern "C" fn(state: *mut c_void, blocks: *mut *mut Block);

unsafe extern "C" {
    fn forebay_library_new() -> *mut Raw;
    fn forebay_library_free(library: *mut Raw);
    fn forebay_library_give_up(library: *mut Raw);
    fn forebay_library_start(
        library: *mut Raw,
        encoded: *const u8,
        length: usize,
        memory: usize,
        reduction: c_uint,
        colours: c_uint,
        scan: *mut RawScan,
    ) -> c_int;
}

/// A decompressor, for one thread at a time.
pub(super) struct Library {
    raw: NonNull<Raw>,
    /// The memory for sample planes, used when rows are made without the library.
    samples: Vec<u8>,
}

impl Library {
    pub(super) fn new() -> Option<Library> {
        // SAFETY: no precondition; the result is null or a live decompressor.
        let raw = NonNull::new(unsafe { forebay_library_new() })?;
        Some(Library { raw, samples: Vec::new() })
    }

    /// The number of bytes that are kept between two images.
    pub(super) fn bytes(&self) -> u64 {
        self.samples.capacity() as u64
    }

    /// Frees the memory for sample planes.
    pub(super) fn free(&mut self) {
        self.samples = Vec::new();
    }

    /// Reads everything before the scan; `None` if the file is not a valid baseline JPEG of one scan.
    pub(super) fn start<'a>(&'a mut self, request: Request<'a>) -> Option<DecodableScan<'a>> {
        let Request { encoded, memory, reduction, colours } = request;
        let mut raw = RawScan {
            begin: 0,
            width: 0,
            height: 0,
            mcus_per_row: 0,
            mcu_rows: 0,
            restart_interval: 0,
            components: 0,
            blocks_in_mcu: 0,
            component_of_block: [0; BLOCKS],
            dc: [std::ptr::null(); COMPONENTS],
            ac: [std::ptr::null(); COMPONENTS],
            across: [0; COMPONENTS],
            down: [0; COMPONENTS],
            quantization: [std::ptr::null(); COMPONENTS],
            side: [0; COMPONENTS],
            luma_and_chroma: 0,
        };
        // SAFETY: the decompressor is live and idle. The bytes outlive the scan, and dropping the scan makes
        // the decompressor idle again.
        let started = unsafe {
            forebay_library_start(
                self.raw.as_ptr(),
                encoded.as_ptr(),
                encoded.len(),
                memory,
                reduction,
                colours as c_uint,
                &raw mut raw,
            )
        };
        (started != 0).then_some(DecodableScan { library: self, request, raw })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the decompressor is live and not used after this.
        unsafe { forebay_library_free(self.raw.as_ptr()) }
    }
}

/// A scan that can be decoded.
pub(super) struct DecodableScan<'a> {
    library: &'a mut Library,
    request: Request<'a>,
    raw: RawScan,
}

impl<'a> DecodableScan<'a> {
    /// The data of the scan, and all bytes after it.
    pub(super) fn data(&self) -> &'a [u8] {
        &self.request.encoded[self.raw.begin..]
    }

    pub(super) fn mcus(&self) -> usize {
        self.raw.mcus_per_row as usize * self.raw.mcu_rows as usize
    }

    pub(super) fn mcus_per_row(&self) -> usize {
        self.raw.mcus_per_row as usize
    }

    /// The number of MCUs between restart markers; 0 if there are none.
    pub(super) fn restart_interval(&self) -> usize {
        self.raw.restart_interval as usize
    }

    /// The Huffman tables of each component, for DC and for AC.
    pub(super) fn definitions(&self) -> impl Iterator<Item = (&Definition, &Definition)> {
        let all = self.raw.dc.iter().zip(&self.raw.ac).take(self.raw.components as usize);
        // SAFETY: the library has decoded these tables for this number of components; they live until the
        // scan is dropped.
        all.map(|(dc, ac)| unsafe { (&**dc, &**ac) })
    }

    /// The component of each block of an MCU, and the number of these blocks.
    pub(super) fn blocks(&self) -> ([u8; BLOCKS], usize) {
        (self.raw.component_of_block.map(|component| component as u8), self.raw.blocks_in_mcu as usize)
    }

    /// Whether only the DC coefficients of a component are needed.
    pub(super) fn needs_dc_alone(&self, component: usize) -> bool {
        self.raw.side.get(component) == Some(&1)
    }

    /// The width and height of the result, at the scale of the request.
    pub(super) fn size(&self) -> (u32, u32) {
        (self.raw.width, self.raw.height)
    }

    /// The number of bytes of a pixel.
    pub(super) fn colours(&self) -> usize {
        self.request.colours
    }

    /// The sampling factors of all components (across, down), and the number of components. `None` if the
    /// image is neither grey nor luma and chroma.
    pub(super) fn sampling(&self) -> Option<([[u32; 2]; COMPONENTS], usize)> {
        let RawScan { across, down, luma_and_chroma, .. } = self.raw;
        let factors = std::array::from_fn(|component| [across[component], down[component]]);
        (luma_and_chroma > 0).then_some((factors, luma_and_chroma as usize))
    }

    /// The number of samples across and down a block of each component: 8, or fewer at a reduced scale.
    pub(super) fn sides(&self) -> [usize; COMPONENTS] {
        self.raw.side.map(|side| side as usize)
    }

    /// The quantisation steps of the coefficients of a component, in natural order.
    pub(super) fn quantization(&self, component: usize) -> Option<&[u16; 64]> {
        // SAFETY: the pointer is null, or points to a table that lives until the scan is dropped.
        unsafe { self.raw.quantization.get(component)?.as_ref() }
    }
}

impl Drop for DecodableScan<'_> {
    fn drop(&mut self) {
        // SAFETY: the decompressor is live. The call makes it idle, and does nothing if it is idle already.
        unsafe { forebay_library_give_up(self.library.raw.as_ptr()) }
    }
}

struct ReadState<'a, F> {
    decode: &'a mut F,
    blocks_in_mcu: usize,
}

unsafe extern "C" fn call<F: FnMut(Option<&mut [&mut Block]>)>(state: *mut c_void, blocks: *mut *mut Block) {
    // SAFETY: the caller of the library passed a pointer to a `ReadState` of this `F`, and does not use it
    // until the library returns.
    let ReadState { decode, blocks_in_mcu } = unsafe { &mut *state.cast::<ReadState<'_, F>>() };
    let blocks = NonNull::new(blocks).map(|blocks| {
        // SAFETY: the library passes as many pointers as an MCU has blocks, each to a block of its own.
        unsafe { std::slice::from_raw_parts_mut(blocks.as_ptr().cast::<&mut Block>(), *blocks_in_mcu) }
    });
    decode(blocks);
}
