//! Measures decoding alone, on one thread: JPEG bytes in memory become one training image, with this library
//! and in two other ways.
//!
//! - `forebay`: this library.
//! - `bare`: libjpeg-turbo and the resize called by hand with the same crops, without checks, limits or
//!   options. It shows what is left to gain.
//! - `whole`: decodes the whole image, then crops and resizes it, as most loaders do.
//!
//! This library also decodes the same photographs as `coefficients`, the form in which a cache keeps them,
//! and as `progressive` JPEGs.
//!
//! The photographs are drawn, or those of 500x375 pixels in the folder that `FOREBAY_PHOTOGRAPHS` names.
//!
//! The contestants take turns image by image, and each is timed only while it works, so that other load and
//! changes of clock speed affect all of them alike.

#[path = "common/photos.rs"]
mod photos;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::Image;
use forebay::image::{Layout, PixelType};
use forebay_image::{Form, RowKey, decode_into};
use photos::photos;

const TARGET: u32 = 224;

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// The `bare` contestant: it calls libjpeg-turbo and the resize directly.
mod bare {
    // The bare loop calls the foreign functions itself; the library calls them in `decode::jpeg::ffi`.
    #![allow(unsafe_code)]

    use super::photos::{HEIGHT, PhotoDraws, WIDTH};
    use super::{MEAN, STD, TARGET};
    use fast_image_resize as fir;
    use turbojpeg_sys as tj;

    /// The side of a block of 4:2:0 sampling, in pixels.
    const MCU: u32 = 16;

    pub(super) struct Loop {
        handle: tj::tjhandle,
        resizer: fir::Resizer,
        pixels: Vec<u8>,
        target: Vec<u8>,
    }

    impl Loop {
        pub(super) fn new() -> Self {
            // SAFETY: no precondition.
            let handle = unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as i32) };
            let target = vec![0; (TARGET * TARGET * 3) as usize];
            Loop {
                handle,
                resizer: fir::Resizer::new(),
                pixels: vec![0; (WIDTH * HEIGHT * 3) as usize],
                target,
            }
        }

        /// Draws a crop and a flip from `key`, and writes the resized crop into `slot`. With `in_decoder` it
        /// decodes only the crop, otherwise the whole image.
        pub(super) fn bytes(&mut self, encoded: &[u8], key: u64, in_decoder: bool, slot: &mut [u8]) {
            let mut draws = PhotoDraws(key);
            let flip = draws.unit() < 0.5;
            let (x, y, w, h) = draws.crop(WIDTH, HEIGHT);
            let (region_x, region_y, region_w, region_h) = match in_decoder {
                true => (x / MCU * MCU, y, x + w - x / MCU * MCU, h),
                false => (0, 0, WIDTH, HEIGHT),
            };
            let region = tj::tjregion {
                x: region_x as i32,
                y: region_y as i32,
                w: region_w as i32,
                h: region_h as i32,
            };
            // SAFETY: the handle is live, `pixels` has room for the whole image, and the region is inside it.
            let rc = unsafe {
                tj::tj3DecompressHeader(self.handle, encoded.as_ptr(), encoded.len() as _)
                    + tj::tj3SetCroppingRegion(self.handle, region)
                    + tj::tj3Decompress8(
                        self.handle,
                        encoded.as_ptr(),
                        encoded.len() as _,
                        self.pixels.as_mut_ptr(),
                        0,
                        tj::TJPF_TJPF_RGB,
                    )
            };
            assert_eq!(rc, 0);
            let source = fir::images::ImageRef::new(region_w, region_h, &self.pixels, fir::PixelType::U8x3);
            let mut target = fir::images::Image::from_slice_u8(TARGET, TARGET, slot, fir::PixelType::U8x3);
            let options = fir::ResizeOptions::new()
                .resize_alg(fir::ResizeAlg::Convolution(fir::FilterType::Bilinear))
                .crop(f64::from(x - region_x), f64::from(y - region_y), f64::from(w), f64::from(h));
            let (source, target) = (source.expect("a source"), target.as_mut().expect("a target"));
            self.resizer.resize(&source, target, &options).expect("a resize");
            if flip {
                slot.as_chunks_mut::<3>().0.chunks_exact_mut(TARGET as usize).for_each(<[_]>::reverse);
            }
        }

        /// Rewrites a JPEG as a progressive one with the same coefficients.
        pub(super) fn progressive(encoded: &[u8]) -> Vec<u8> {
            let options = tj::TJXOPT_PROGRESSIVE as i32;
            // SAFETY: zeros mean that there is no crop, no filter and no other operation.
            let transform = tj::tjtransform { options, ..unsafe { std::mem::zeroed() } };
            let (mut made, mut length) = (std::ptr::null_mut(), 0);
            // SAFETY: the handle is live until it is destroyed; the library allocates the result and sets its
            // length.
            unsafe {
                let handle = tj::tj3Init(tj::TJINIT_TJINIT_TRANSFORM as i32);
                let (from, bytes) = (encoded.as_ptr(), encoded.len() as _);
                assert_eq!(tj::tj3Transform(handle, from, bytes, 1, &mut made, &mut length, &transform), 0);
                let progressive = std::slice::from_raw_parts(made, length as usize).to_vec();
                tj::tj3Free(made.cast());
                tj::tj3Destroy(handle);
                progressive
            }
        }

        /// Does the same as `bytes`, and writes one normalised plane of float32 for each channel.
        pub(super) fn planes(&mut self, encoded: &[u8], key: u64, in_decoder: bool, slot: &mut [u8]) {
            let mut target = std::mem::take(&mut self.target);
            self.bytes(encoded, key, in_decoder, &mut target);
            let plane = (TARGET * TARGET) as usize * size_of::<f32>();
            for (channel, to) in slot.chunks_exact_mut(plane).enumerate() {
                let (scale, offset) = (1.0 / (255.0 * STD[channel]), -MEAN[channel] / STD[channel]);
                for (to, from) in to.as_chunks_mut().0.iter_mut().zip(target.as_chunks::<3>().0) {
                    *to = (f32::from(from[channel]) * scale + offset).to_ne_bytes();
                }
            }
            self.target = target;
        }
    }
}

type Contestant<'a> = (&'static str, Box<dyn FnMut(&[u8], u64, &mut [u8]) + 'a>);

fn contest(c: &mut Criterion, name: &str, slot: usize, contestants: &mut [Contestant<'_>]) {
    let photos = photos();
    let mut slot = vec![0u8; slot];
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    for timed in 0..contestants.len() {
        group.bench_function(contestants[timed].0, |bencher| {
            bencher.iter_custom(|rounds| {
                let mut total = Duration::ZERO;
                for key in 0..rounds {
                    for (index, (_, run)) in contestants.iter_mut().enumerate() {
                        let started = Instant::now();
                        run(&photos[key as usize % photos.len()], key, &mut slot);
                        black_box(&mut slot);
                        if index == timed {
                            total += started.elapsed();
                        }
                    }
                }
                total
            });
        });
    }
    group.finish();
}

fn benches(c: &mut Criterion) {
    let forebay = |image: Image| {
        move |photo: &[u8], key: u64, slot: &mut [u8]| {
            decode_into(&image, photo, RowKey(key), slot).expect("a photograph");
        }
    };
    let bytes = Image::random_resized_crop(TARGET).flip();
    let planes = bytes.clone().normalize(MEAN, STD).dtype(PixelType::F32).layout(Layout::Nchw);
    let of_photos = |make: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<Vec<u8>> {
        photos().iter().map(|photo| make(photo)).collect()
    };
    let coefficients =
        of_photos(&|photo| bytes.keep(Form::Coefficients, photo).expect("coefficients").into_owned());
    let progressive = of_photos(&bare::Loop::progressive);
    let kept = |photos: &[Vec<u8>], key: u64, slot: &mut [u8]| {
        forebay(bytes.clone())(&photos[key as usize % photos.len()], key, slot);
    };
    let mut ours = bare::Loop::new();
    let mut whole = bare::Loop::new();
    contest(
        c,
        "uint8 NHWC",
        bytes.bytes_per_image(),
        &mut [
            ("forebay", Box::new(forebay(bytes.clone()))),
            ("coefficients", Box::new(|_, key, slot| kept(&coefficients, key, slot))),
            ("progressive", Box::new(|_, key, slot| kept(&progressive, key, slot))),
            ("bare", Box::new(|photo, key, slot| ours.bytes(photo, key, true, slot))),
            ("whole", Box::new(|photo, key, slot| whole.bytes(photo, key, false, slot))),
        ],
    );
    contest(
        c,
        "float32 NCHW",
        planes.bytes_per_image(),
        &mut [
            ("forebay", Box::new(forebay(planes.clone()))),
            ("bare", Box::new(|photo, key, slot| ours.planes(photo, key, true, slot))),
            ("whole", Box::new(|photo, key, slot| whole.planes(photo, key, false, slot))),
        ],
    );
}

criterion_group!(decode, benches);
criterion_main!(decode);
