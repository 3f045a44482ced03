//! Decodes a whole JPEG with libjpeg-turbo alone.

#![allow(unsafe_code, reason = "the library is C")]

use std::ffi::{c_int, c_ulong};

use turbojpeg_sys as tj;

/// Returns the image as RGB of 8 bits; `None` if the library refuses it or warns, or if its colours are
/// neither grey nor YCbCr.
pub(crate) fn rgb(encoded: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: no precondition.
    let handle = unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) };
    assert!(!handle.is_null(), "no memory for a decoder");
    let decoded = decoded(handle, encoded);
    // SAFETY: the handle is live and not used after this.
    unsafe { tj::tj3Destroy(handle) };
    decoded
}

fn decoded(handle: tj::tjhandle, encoded: &[u8]) -> Option<Vec<u8>> {
    let length = encoded.len() as c_ulong;
    // SAFETY: the handle is live, and the library reads at most `length` bytes.
    let read = unsafe { tj::tj3DecompressHeader(handle, encoded.as_ptr(), length as _) };
    // SAFETY: the handle is live.
    let get = |parameter: u32| unsafe { tj::tj3Get(handle, parameter as c_int) };
    let (width, height) = (get(tj::TJPARAM_TJPARAM_JPEGWIDTH), get(tj::TJPARAM_TJPARAM_JPEGHEIGHT));
    let colours = get(tj::TJPARAM_TJPARAM_COLORSPACE) as u32;
    if read != 0 || ![tj::TJCS_TJCS_GRAY, tj::TJCS_TJCS_YCbCr].contains(&colours) {
        return None;
    }
    let (width, height) = (usize::try_from(width).ok()?, usize::try_from(height).ok()?);
    let mut pixels = vec![0; width.checked_mul(height)?.checked_mul(3)?];
    let format = tj::TJPF_TJPF_RGB;
    // SAFETY: the handle is live, the library reads at most `length` bytes, and `pixels` has room for the
    // whole image.
    let decoded =
        unsafe { tj::tj3Decompress8(handle, encoded.as_ptr(), length as _, pixels.as_mut_ptr(), 0, format) };
    (decoded == 0).then_some(pixels)
}
