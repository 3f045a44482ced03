//! The TurboJPEG 3 interface of libjpeg-turbo as safe calls on slices. All calls of that interface go through
//! this file.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use turbojpeg_sys as tj;

/// The error message of libjpeg-turbo.
pub(super) type Message = String;

/// The colour format of decoded pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    Rgb,
    Luma,
    Cmyk,
}

impl Samples {
    pub(super) fn per_pixel(self) -> usize {
        match self {
            Samples::Luma => 1,
            Samples::Rgb => 3,
            Samples::Cmyk => 4,
        }
    }

    fn format(self) -> c_int {
        match self {
            Samples::Rgb => tj::TJPF_TJPF_RGB,
            Samples::Luma => tj::TJPF_TJPF_GRAY,
            Samples::Cmyk => tj::TJPF_TJPF_CMYK,
        }
    }
}

/// The colour space in which a JPEG stores its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Luma,
    Colour,
    Cmyk,
}

/// The contents of a header, as libjpeg-turbo reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Info {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) stored: Stored,
    /// The width in pixels of an iMCU (the unit at which a crop may begin); `None` for unusual chroma
    /// samplings.
    pub(super) mcu_width: Option<u32>,
    /// Whether the JPEG is lossy and not progressive, so that one scan has all the data of a component.
    pub(super) sequential: bool,
}

/// A rectangle in pixels of the reduced image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A decompressor of libjpeg-turbo, for one thread at a time.
///
/// After a failure, its state is unknown, because libjpeg-turbo does not reset a half-read header. So opening
/// and decoding consume the decompressor and return it only on success.
pub(super) struct Decompressor(NonNull<std::ffi::c_void>);

impl Decompressor {
    /// Makes a decompressor that fails at the first warning, and at a progressive image with more than
    /// `max_scans` scans. It allocates at most `max_memory_mib` MiB.
    pub(super) fn new(max_scans: u32, max_memory_mib: u32) -> Result<Self, Message> {
        let mut decompressor = new_handle(tj::TJINIT_TJINIT_DECOMPRESS).map(Decompressor)?;
        decompressor.set(tj::TJPARAM_TJPARAM_STOPONWARNING, 1)?;
        decompressor.set(tj::TJPARAM_TJPARAM_SCANLIMIT, to_c(max_scans))?;
        decompressor.set(tj::TJPARAM_TJPARAM_MAXMEMORY, to_c(max_memory_mib))?;
        // Colour profiles are not used. By default, libjpeg-turbo copies the ICC profile of each image, and
        // warns if it is damaged.
        decompressor.set(tj::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
        Ok(decompressor)
    }

    /// Reads the header. The result owns the decompressor until the pixels are decoded.
    pub(super) fn open(self, encoded: &[u8]) -> Result<OpenedJpeg<'_>, Message> {
        // SAFETY: the handle is valid, and libjpeg-turbo reads at most `encoded.len()` bytes from the
        // pointer.
        let rc = unsafe { tj::tj3DecompressHeader(self.0.as_ptr(), encoded.as_ptr(), encoded.len() as _) };
        self.check(rc)?;
        let [width, height] =
            [tj::TJPARAM_TJPARAM_JPEGWIDTH, tj::TJPARAM_TJPARAM_JPEGHEIGHT].map(|param| self.get(param));
        if width < 1 || height < 1 {
            return Err("no frame header".into());
        }
        const LUMA: c_int = tj::TJCS_TJCS_GRAY as c_int;
        const CMYK: c_int = tj::TJCS_TJCS_CMYK as c_int;
        const YCCK: c_int = tj::TJCS_TJCS_YCCK as c_int;
        let stored = match self.get(tj::TJPARAM_TJPARAM_COLORSPACE) {
            LUMA => Stored::Luma,
            CMYK | YCCK => Stored::Cmyk,
            _ => Stored::Colour,
        };
        let multiple = [tj::TJPARAM_TJPARAM_PROGRESSIVE, tj::TJPARAM_TJPARAM_LOSSLESS];
        let info = Info {
            width: width.cast_unsigned(),
            height: height.cast_unsigned(),
            stored,
            mcu_width: mcu_width(self.get(tj::TJPARAM_TJPARAM_SUBSAMP)),
            sequential: multiple.into_iter().all(|param| self.get(param) == 0),
        };
        Ok(OpenedJpeg { decompressor: self, encoded, info })
    }

    fn get(&self, param: tj::TJPARAM) -> c_int {
        // SAFETY: the handle is valid; libjpeg-turbo returns -1 for an unknown parameter.
        unsafe { tj::tj3Get(self.0.as_ptr(), param as c_int) }
    }

    fn set(&mut self, param: tj::TJPARAM, value: c_int) -> Result<(), Message> {
        // SAFETY: the handle is valid; libjpeg-turbo checks the parameter and its value.
        let rc = unsafe { tj::tj3Set(self.0.as_ptr(), param as c_int, value) };
        self.check(rc)
    }

    fn check(&self, rc: c_int) -> Result<(), Message> {
        if rc == 0 { Ok(()) } else { Err(message(self.0)) }
    }
}

/// A decompressor that has read the header of one image.
pub(super) struct OpenedJpeg<'a> {
    decompressor: Decompressor,
    encoded: &'a [u8],
    info: Info,
}

impl<'a> OpenedJpeg<'a> {
    pub(super) fn info(&self) -> Info {
        self.info
    }

    pub(super) fn encoded(&self) -> &'a [u8] {
        self.encoded
    }

    /// Returns the decompressor without decoding.
    pub(super) fn close(self) -> Decompressor {
        self.decompressor
    }

    /// Decodes into `out` a `region` of the image, or the whole image if it is `None`, reduced by `reduction`
    /// (1, 2, 4 or 8). `out` must have exactly the length of the pixels. Returns the decompressor for the
    /// next image.
    pub(super) fn decompress(
        self,
        reduction: u32,
        region: Option<Region>,
        samples: Samples,
        out: &mut [u8],
    ) -> Result<Decompressor, Message> {
        let OpenedJpeg { decompressor, encoded, info } = self;
        let handle = decompressor.0.as_ptr();
        let factor = tj::tjscalingfactor { num: 1, denom: to_c(reduction) };
        // SAFETY: the handle is valid; libjpeg-turbo checks the factor.
        decompressor.check(unsafe { tj::tj3SetScalingFactor(handle, factor) })?;
        let crop = match region {
            Some(Region { x, y, width, height }) => {
                tj::tjregion { x: to_c(x), y: to_c(y), w: to_c(width), h: to_c(height) }
            }
            None => tj::tjregion { x: 0, y: 0, w: 0, h: 0 },
        };
        // SAFETY: the handle is valid; libjpeg-turbo checks the region against the header that it has read.
        decompressor.check(unsafe { tj::tj3SetCroppingRegion(handle, crop) })?;
        let (columns, rows) = match region {
            Some(region) => (region.width, region.height),
            None => (info.width.div_ceil(reduction), info.height.div_ceil(reduction)),
        };
        let pitch = columns as usize * samples.per_pixel();
        assert_eq!(out.len(), pitch * rows as usize, "the buffer of a decoded region");
        // SAFETY: the handle is valid, and libjpeg-turbo reads at most `encoded.len()` bytes of the input. It
        // writes `rows` rows of `pitch` bytes: the size of the region, or else the reduced size from the
        // header, which it reads again from the same borrowed bytes.
        let rc = unsafe {
            tj::tj3Decompress8(
                handle,
                encoded.as_ptr(),
                encoded.len() as _,
                out.as_mut_ptr(),
                to_c(pitch as u32),
                samples.format(),
            )
        };
        decompressor.check(rc)?;
        Ok(decompressor)
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: the handle is valid and not used after this.
        unsafe { tj::tj3Destroy(self.0.as_ptr()) }
    }
}

/// The chroma sampling 4:2:0: chroma has half the width and half the height of luma.
pub(super) const HALVED_CHROMA: c_int = tj::TJSAMP_TJSAMP_420;

/// TurboJPEG's chroma samplings, numbered from 0.
#[cfg(test)]
pub(super) const CHROMA_SAMPLINGS: c_int = tj::TJ_NUMSAMP as c_int;

/// A parameter of the encoder, and its value.
pub(super) type Setting = (tj::TJPARAM, c_int);

pub(super) fn quality(quality: u8) -> Setting {
    (tj::TJPARAM_TJPARAM_QUALITY, c_int::from(quality))
}

pub(super) fn chroma_sampling(sampling: c_int) -> Setting {
    (tj::TJPARAM_TJPARAM_SUBSAMP, sampling)
}

/// Encodes RGB pixels (`height * width * 3` bytes) as a JPEG. The settings must include the quality and the
/// chroma sampling.
pub(super) fn compress(
    rgb: &[u8],
    width: u32,
    height: u32,
    settings: &[Setting],
) -> Result<Vec<u8>, Message> {
    assert_eq!(
        rgb.len(),
        width as usize * height as usize * Samples::Rgb.per_pixel(),
        "the pixels of a JPEG to be"
    );
    let handle = new_handle(tj::TJINIT_TJINIT_COMPRESS)?;
    let set = |(param, value): &Setting| {
        // SAFETY: the handle is valid; libjpeg-turbo checks the parameter and its value.
        if unsafe { tj::tj3Set(handle.as_ptr(), *param as c_int, *value) } == 0 {
            Ok(())
        } else {
            Err(message(handle))
        }
    };
    let mut encoded = std::ptr::null_mut();
    let mut length = 0;
    let done = settings
        .iter()
        .try_for_each(set)
        .and_then(|()| {
            // SAFETY: the handle is valid, `rgb` has `height` rows of `width` RGB pixels without padding, and
            // libjpeg-turbo allocates the result.
            let rc = unsafe {
                tj::tj3Compress8(
                    handle.as_ptr(),
                    rgb.as_ptr(),
                    to_c(width),
                    0,
                    to_c(height),
                    Samples::Rgb.format(),
                    &mut encoded,
                    &mut length,
                )
            };
            if rc == 0 { Ok(()) } else { Err(message(handle)) }
        })
        .map(|()| {
            // SAFETY: libjpeg-turbo has allocated `length` bytes at this pointer.
            unsafe { std::slice::from_raw_parts(encoded, length as usize) }.to_vec()
        });
    // SAFETY: libjpeg-turbo allocated both, they are not used after this, and freeing null has no effect.
    unsafe {
        tj::tj3Free(encoded.cast());
        tj::tj3Destroy(handle.as_ptr());
    }
    done
}

fn new_handle(init: tj::TJINIT) -> Result<NonNull<std::ffi::c_void>, Message> {
    // SAFETY: the call has no precondition; it returns null or a valid handle.
    NonNull::new(unsafe { tj::tj3Init(init as c_int) }).ok_or_else(|| "no memory for a JPEG codec".into())
}

fn message(handle: NonNull<std::ffi::c_void>) -> Message {
    // SAFETY: the handle is valid, and its error text is a string that ends in zero and lives as long as the
    // handle.
    unsafe { CStr::from_ptr(tj::tj3GetErrorStr(handle.as_ptr())) }.to_string_lossy().into_owned()
}

/// The width in pixels of an iMCU (the unit at which a crop may begin) for a chroma sampling of TurboJPEG: 8
/// times the horizontal sampling factor of luma.
fn mcu_width(subsampling: c_int) -> Option<u32> {
    match subsampling {
        tj::TJSAMP_TJSAMP_444 | tj::TJSAMP_TJSAMP_GRAY | tj::TJSAMP_TJSAMP_440 | tj::TJSAMP_TJSAMP_441 => {
            Some(8)
        }
        tj::TJSAMP_TJSAMP_422 | tj::TJSAMP_TJSAMP_420 => Some(16),
        tj::TJSAMP_TJSAMP_411 => Some(32),
        _ => None,
    }
}

fn to_c(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
