//! Masks of single objects of an image.

use forebay_base::{Error, Result};

use super::drawn::Drawn;
use super::mask::{decode_mask, place};
use super::mask_type::MaskType;
use super::refuse::{bad_row, check_size};
use super::scratch::Scratch;
use super::spec::{Image, Size};
use super::workspace::Workspace;
use super::{polygon, run_lengths};

/// The stored mask of an object.
#[derive(Clone, Copy, Debug)]
pub enum Instance<'a> {
    /// A PNG of one channel; the object is wherever it is not 0.
    Png(&'a [u8]),
    /// COCO's uncompressed run lengths: the number of pixels outside the object, then inside it, then outside
    /// again and so on, column by column.
    Counts(&'a [i64]),
    /// Run lengths as text, as COCO's mask API compresses them.
    Text(&'a [u8]),
    /// Polygons `x0, y0, x1, y1, ...` that together are the object, drawn as COCO's mask API does.
    Polygons(&'a [&'a [f64]]),
}

/// Writes the mask of an object into `slot`, row by row: 1 for pixels of the object and 0 for all others. The
/// mask is cropped, resized (to the nearest pixel), mirrored and turned like the image, so it has the same
/// target size. `size` is the size that is stored beside run lengths, if there is one.
///
/// # Errors
/// Fails if a PNG is not a mask, if the mask has another size than the image, if run lengths do not add up to
/// the number of pixels of the image, or if a polygon has fewer than three points.
pub fn decode_instance(
    workspace: &Workspace,
    image: &Image,
    drawn: &Drawn,
    instance: Instance<'_>,
    size: Option<Size>,
    slot: &mut [u8],
) -> Result<()> {
    let seen = drawn.seen();
    let Size { height, width } = seen;
    if let Some(Size { height: h, width: w }) = size.filter(|size| *size != seen) {
        return Err(bad_row(format!("a mask of {w}x{h} pixels for an image of {width}x{height}")));
    }
    if let Instance::Png(encoded) = instance {
        decode_mask(workspace, image, drawn, encoded, MaskType::U8, slot)?;
        slot.iter_mut().for_each(|value| *value = u8::from(*value != 0));
        return Ok(());
    }
    check_size(width, height, image.max_pixels)?;
    let bytes = width as usize * height as usize;
    let buffers = if matches!(instance, Instance::Polygons(_)) { 2 } else { 1 };
    let still = if drawn.turn().is_some() { slot.len() as u64 } else { 0 };
    let needed = (buffers * bytes as u64).saturating_add(still);
    let _taken = workspace.take(needed, || format!("a mask of {width}x{height} pixels"))?;
    Scratch::with(workspace.own(), |Scratch { stages, .. }| {
        let pixels = stages.pixels.take(bytes);
        pixels.fill(0);
        match instance {
            Instance::Counts(counts) => run_lengths::fill(counts, seen, pixels)?,
            Instance::Text(text) => run_lengths::fill(&run_lengths::from_text(text)?, seen, pixels)?,
            Instance::Polygons(polygons) => {
                let changes = stages.second.take(bytes);
                polygons.iter().try_for_each(|points| polygon::fill(points, seen, changes, pixels))?;
            }
            Instance::Png(_) => {}
        }
        place::<1>(pixels, image, drawn, slot);
        Ok(())
    })
}

/// The compressed run lengths of an object in an image of this size, as COCO's mask API writes them.
///
/// ```
/// use forebay_image::{Instance, Size, compress_instance};
///
/// let size = Size { height: 3, width: 4 };
/// let square = [1.0, 0.0, 3.0, 0.0, 3.0, 2.0, 1.0, 2.0];
/// let text = compress_instance(Instance::Polygons(&[&square]), size)?;
/// assert_eq!(text, compress_instance(Instance::Counts(&[3, 2, 1, 2, 4]), size)?);
/// # Ok::<(), forebay_image::Error>(())
/// ```
///
/// # Errors
/// Fails if run lengths do not add up to the number of pixels, if a polygon has fewer than three points, if
/// the image has more pixels than an [`Image`] allows by default, and for a PNG.
pub fn compress_instance(instance: Instance<'_>, size: Size) -> Result<String> {
    check_size(size.width, size.height, Image::resize(1, 1).max_pixels)?;
    let counts = match instance {
        Instance::Counts(counts) => counts.to_vec(),
        Instance::Text(text) => run_lengths::from_text(text)?,
        Instance::Polygons(polygons) => {
            let bytes = size.width as usize * size.height as usize;
            let (mut pixels, mut changes) = (vec![0; bytes], vec![0; bytes]);
            polygons.iter().try_for_each(|points| polygon::fill(points, size, &mut changes, &mut pixels))?;
            run_lengths::of_pixels(&pixels, size)
        }
        Instance::Png(_) => return Err(Error::invalid("a mask in PNG has no run lengths")),
    };
    run_lengths::check(&counts, size)?;
    Ok(run_lengths::to_text(&counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, RowKey, encode_jpeg};

    const SIZE: Size = Size { height: 37, width: 53 };

    fn shown(image: &Image, instance: Instance<'_>, size: Option<Size>) -> Result<Vec<u8>> {
        let jpeg = encode_jpeg(&[90; 37 * 53 * 3], SIZE.width, SIZE.height, 90)?;
        let drawn = Drawn::probe(image, &jpeg, RowKey(3))?;
        let mut slot = vec![7; image.size().height as usize * image.size().width as usize];
        let workspace = Workspace::of_one(1 << 20);
        decode_instance(&workspace, image, &drawn, instance, size, &mut slot).map(|()| slot)
    }

    /// Polygons, the compressed run lengths that pycocotools makes of them, and their pixels.
    const POLYGONS: [(&[f64], &str, usize); 5] = [
        (&[1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0], "V12S10ii1", 4),
        (
            &[10.5, 4.25, 40.75, 8.5, 30.1, 33.9, 5.2, 20.7],
            "]61Q13M4L3L5L4O0010O01O001O001O010O001O001O010O1O001OO1N2M4M2N2M3N2M3N2Nk>",
            648,
        ),
        (
            &[-8.5, -3.0, 60.2, 5.5, 45.5, 44.1, 20.3, 12.2, 3.9, 50.0],
            "0S12]:0aE2M3N2N2M3N2N2M4M2N21O2N1O1O2N100O1O2N1O1O1O2N100O2N1O1O1O1O0001O000000000O1N2M4M2MN",
            1460,
        ),
        (
            &[20.0, 2.0, 22.4, 30.6, 18.1, 15.5, 40.9, 17.2, 12.7, 18.8],
            "b?2Q12M3N2N2M0ZOFe0<\\OEg06YONk0LUO5h0K90000000000000001O00000000Tc0",
            106,
        ),
        (
            &[
                48.0, 18.0, 33.62, 21.4, 37.0, 32.72, 26.0, 24.8, 15.0, 32.72, 18.38, 21.4, 4.0, 18.0, 18.38,
                14.6, 15.0, 3.28, 26.0, 11.2, 37.0, 3.28, 33.62, 14.6,
            ],
            "_72S100000O2O00000O1DMF40KO3N20N32J0O19a01O2O1N2N101N2N10O2N2O0O2N2N101N^OH0O17MM20N1N240K:4=O0000001N100000b7",
            452,
        ),
    ];

    #[test]
    fn polygons_and_run_lengths_are_those_of_pycocotools() {
        let same = Image::resize(SIZE.height, SIZE.width);
        for (points, text, pixels) in POLYGONS {
            let found = shown(&same, Instance::Polygons(&[points]), None).unwrap();
            assert_eq!(found.iter().map(|value| usize::from(*value)).sum::<usize>(), pixels);
            assert!(found == shown(&same, Instance::Text(text.as_bytes()), Some(SIZE)).unwrap(), "{text}");
        }
        let both = shown(&same, Instance::Polygons(&[POLYGONS[0].0, POLYGONS[1].0]), None).unwrap();
        assert_eq!(both.iter().filter(|value| **value == 1).count(), 652);
        assert_eq!(shown(&same, Instance::Polygons(&[]), None).unwrap(), vec![0; 37 * 53]);
    }

    #[test]
    fn an_object_is_compressed_as_pycocotools_compresses_it() {
        for (points, text, _) in POLYGONS {
            assert_eq!(compress_instance(Instance::Polygons(&[points]), SIZE).unwrap(), text);
            assert_eq!(compress_instance(Instance::Text(text.as_bytes()), SIZE).unwrap(), text);
        }
        assert!(compress_instance(Instance::Text(POLYGONS[0].1.as_bytes()), Size::from(37)).is_err());
        assert!(compress_instance(Instance::Counts(&[]), Size::from(0)).is_err());
        assert!(compress_instance(Instance::Png(b""), SIZE).is_err());
    }

    #[test]
    fn an_object_is_cropped_and_mirrored_like_a_mask_of_classes() {
        let whole = shown(&Image::resize(37, 53), Instance::Polygons(&[POLYGONS[1].0]), None).unwrap();
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, SIZE.width, SIZE.height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let levels: Vec<u8> = whole.iter().map(|value| value * 255).collect();
        encoder.write_header().unwrap().write_image_data(&levels).unwrap();
        for image in [
            Image::random_resized_crop(24).flip_with(1.0),
            Image::scale_jitter((40, 30)).vertical_flip_with(1.0),
            Image::random_crop(50).padding(6).flip_with(1.0),
            Image::random_crop(50).padding_mode(crate::PaddingMode::Reflect),
            Image::random_shortest_size([20, 30], 64).random_rotation((30.0, 30.0)),
        ] {
            let of_polygon = shown(&image, Instance::Polygons(&[POLYGONS[1].0]), None).unwrap();
            assert!(of_polygon == shown(&image, Instance::Png(&png), None).unwrap(), "{image}");
            assert!(of_polygon.contains(&1) && of_polygon.contains(&0) && of_polygon.iter().all(|v| *v < 2));
        }
    }

    #[test]
    fn a_mask_of_another_size_is_bad() {
        let image = Image::resize(8, 8);
        let other = Size { height: 53, width: 37 };
        let error = shown(&image, Instance::Counts(&[37 * 53]), Some(other)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadRow);
        assert_eq!(error.to_string(), "a mask of 37x53 pixels for an image of 53x37");
        assert!(shown(&image, Instance::Counts(&[37 * 53]), Some(SIZE)).is_ok());
        assert!(shown(&image, Instance::Counts(&[37 * 53 - 1]), None).is_err());
    }
}
