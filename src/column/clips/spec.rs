//! [`Clip`]: the option that delivers several images as one value. It says how they are decoded and chosen,
//! whether they all get the same random crop and colours, and the order of the axes.

use forebay_base::{Error, Result};
use forebay_image::{Image, Layout};
use serde::{Deserialize, Serialize};

use super::chosen::Chosen;
use super::sampling::FrameSampling;
use crate::batch::Fill;
use crate::column::ColumnOption;
use crate::samples::Frames;
use forebay_arrow::datatypes::Field;

/// Several images as one value: a list of images in each row, or the images of a
/// [`Window`](crate::samples::Window).
///
/// Pass it to a loader with [`LoaderBuilder::clip`](crate::LoaderBuilder::clip). A row of the column has a
/// list of binary values or of `struct<bytes, path>`, and becomes a tensor `[frames, height, width,
/// channels]`. With [`frames`](Self::frames), or for lists of a fixed length, all clips have one shape;
/// otherwise each has as many images as its list, and a batch is a list of tensors. With windows the column
/// has one image in each row, and a clip consists of the rows of a window.
///
/// Images that keep their aspect ratio, as with [`Image::fit`], are each on a canvas, and a column
/// `<column>.size` has their sizes: `[frames, 2]` for a clip, or a list of sizes if clips differ in length.
///
/// By default, all images of a clip get the same random crop, flip and change of colours: those that an
/// [`Image`] would get in the same row, or in the first row of the window. A bad image makes its row or
/// window a bad one.
///
/// ```
/// use forebay::Image;
/// use forebay::column::{Clip, ClipLayout, FrameSampling};
/// use forebay::samples::Window;
///
/// let image = Image::random_resized_crop(224).flip();
/// // 8 images of each list, one out of each eighth of it.
/// let segments = Clip::new(image.clone()).frames(8).sampling(FrameSampling::Random);
/// // 16 of 64 rows, 4 rows apart, as convolutions in three dimensions take them.
/// let dense = Clip::new(image).frames(16).stride(4).layout(ClipLayout::Ncthw);
/// # fn build(dataset: forebay::Dataset, dense: Clip) -> forebay::Result<forebay::Loader> {
/// dataset.loader().samples(Window::rows(64)).clip("frame", dense).build()
/// # }
/// # segments.validate()?;
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    image: Image,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frames: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_most: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<u32>,
    #[serde(default)]
    sampling: FrameSampling,
    #[serde(default)]
    draws: Frames,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<ClipLayout>,
}

/// The order of the axes of a batch of [`Clip`]s: N clips, T images, C channels, H rows, W columns.
///
/// ```
/// use forebay::column::ClipLayout;
///
/// assert_eq!(ClipLayout::Ncthw.name(), "NCTHW");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum ClipLayout {
    /// Channels last.
    Nthwc,
    /// Each image with its channels first.
    Ntchw,
    /// Channels before images, as convolutions in three dimensions take them.
    Ncthw,
}

impl ClipLayout {
    /// All layouts.
    pub const ALL: [ClipLayout; 3] = [ClipLayout::Nthwc, ClipLayout::Ntchw, ClipLayout::Ncthw];

    /// The name in Python and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ClipLayout::Nthwc => "NTHWC",
            ClipLayout::Ntchw => "NTCHW",
            ClipLayout::Ncthw => "NCTHW",
        }
    }
}

impl Clip {
    /// A clip of all images of a list or window. Each is decoded as `image` says.
    pub fn new(image: Image) -> Clip {
        Clip {
            image,
            frames: None,
            at_most: None,
            stride: None,
            sampling: FrameSampling::Even,
            draws: Frames::Together,
            layout: None,
        }
    }

    /// Sets the number of images of each clip. If a list or window has fewer images, some are repeated; an
    /// empty list is a bad row. Default: all images.
    #[must_use]
    pub fn frames(self, frames: u32) -> Clip {
        Clip { frames: Some(frames), ..self }
    }

    /// Sets the most images that a clip may have, for lists of different lengths without a number of
    /// [`frames`](Self::frames). A longer list is a bad row. While a batch is made, each of its clips takes
    /// the memory of this many images. There is no default: such lists need this number or `frames`.
    #[must_use]
    pub fn at_most(self, frames: u32) -> Clip {
        Clip { at_most: Some(frames), ..self }
    }

    /// Sets the distance from one image of a clip to the next, in images of the list or rows of the window.
    /// If the list or window is too short for [`frames`](Self::frames) images, its last image is repeated.
    /// Default: 1; if the number of images is given, they are spread over the whole list or window.
    #[must_use]
    pub fn stride(self, images: u32) -> Clip {
        Clip { stride: Some(images), ..self }
    }

    /// Sets the way in which [`frames`](Self::frames) images are chosen. Default: [`FrameSampling::Even`].
    #[must_use]
    pub fn sampling(self, sampling: FrameSampling) -> Clip {
        Clip { sampling, ..self }
    }

    /// Sets whether the images of a clip share their random crop, flip and change of colours. With
    /// [`Frames::Alone`], each image of a list gets its own, and each row of a window gets those that it
    /// would get without a window. Default: the images share them, unless the window says otherwise.
    #[must_use]
    pub fn draws(self, draws: Frames) -> Clip {
        Clip { draws, ..self }
    }

    /// Sets the order of the axes. Default: that of the image, with the images of a clip as the second axis.
    #[must_use]
    pub fn layout(self, layout: ClipLayout) -> Clip {
        Clip { layout: Some(layout), ..self }
    }

    /// Refuses a clip that cannot work.
    ///
    /// # Errors
    /// [`forebay_base::ErrorKind::Invalid`], with a hint that says what to change.
    pub fn validate(&self) -> Result<()> {
        self.image.validate()?;
        for (name, number) in [("frames", self.frames), ("at_most", self.at_most), ("stride", self.stride)] {
            if number == Some(0) {
                return Err(Error::invalid(format!("a clip with {name} of 0")).hint("give 1 or more"));
            }
        }
        if self.frames.is_some() && self.at_most.is_some() {
            return Err(Error::invalid("a clip with frames and at_most").hint("leave one of them out"));
        }
        if self.frames.is_none() && self.sampling == FrameSampling::Random {
            return Err(Error::invalid("a clip of random images without their number")
                .hint("give the number with frames"));
        }
        if self.image.is_ragged() {
            return Err(Error::invalid("a clip of images without a canvas").hint(
                "all images of a clip have one size: leave ragged out, or pass the Image itself, without a \
                 clip, for the rows of a window",
            ));
        }
        if self.image.crops_around().is_some() {
            return Err(Error::invalid("a clip of images that are cropped around boxes")
                .hint("one crop cannot follow the boxes of several images: give another crop"));
        }
        if self.image.emits_geometry() || self.image.follows().is_some() {
            return Err(Error::invalid("a clip of images that follow others or are followed")
                .hint("leave `of` and emit_geometry out"));
        }
        if self.layout == Some(ClipLayout::Nthwc) && self.image.pixel_layout() == Layout::Nchw {
            return Err(Error::invalid("a clip in NTHWC of images in NCHW").hint("leave one of them out"));
        }
        Ok(())
    }

    /// Whether the column `<column>.size` is delivered, with the size of each image on its canvas.
    pub(crate) fn emits_size(&self) -> bool {
        self.image.emits_size()
    }

    /// How each image is decoded.
    pub(crate) fn image(&self) -> Image {
        match self.layout {
            Some(ClipLayout::Ntchw | ClipLayout::Ncthw) => self.image.clone().layout(Layout::Nchw),
            Some(ClipLayout::Nthwc) | None => self.image.clone(),
        }
    }

    pub(super) fn chosen(&self) -> Chosen {
        let number = |number: Option<u32>| number.map(|number| number as usize);
        Chosen { frames: number(self.frames), stride: number(self.stride), sampling: self.sampling }
    }

    pub(super) fn most(&self) -> Option<usize> {
        self.at_most.map(|most| most as usize)
    }

    pub(super) fn has_channels_first(&self) -> bool {
        self.layout == Some(ClipLayout::Ncthw)
    }

    pub(crate) fn are_drawn_together(&self) -> bool {
        self.draws.are_together()
    }
}

/// The loader makes the column of this option, since only the loader knows the windows of rows.
impl ColumnOption for Clip {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn takes_whole() -> bool {
        true
    }

    fn takes_fill(&self, _: &Field, fill: &Fill) -> bool {
        // The codec checks later whether the number fits the type of the pixels.
        fill.number().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_never_work_is_refused_with_the_next_move() {
        let clip = || Clip::new(Image::resize(8, 8));
        for (clip, said) in [
            (clip().frames(0), "frames of 0"),
            (clip().at_most(0), "at_most of 0"),
            (clip().stride(0), "stride of 0"),
            (clip().frames(2).at_most(3), "leave one"),
            (clip().sampling(FrameSampling::Random), "without their number"),
            (Clip::new(Image::fit(8).ragged()), "without a canvas"),
            (Clip::new(Image::random_iou_crop(8, "boxes")), "around boxes"),
            (Clip::new(Image::resize(8, 8).emit_geometry()), "leave of and emit_geometry out"),
            (Clip::new(Image::resize(8, 8).following("x")), "follow others"),
            (Clip::new(Image::resize(8, 8).layout(Layout::Nchw)).layout(ClipLayout::Nthwc), "leave one"),
            (Clip::new(Image::resize(0, 8)), "0x8"),
        ] {
            let error = clip.validate().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        clip().frames(2).stride(3).layout(ClipLayout::Ncthw).validate().unwrap();
    }

    #[test]
    fn a_clip_is_read_as_it_was_written() {
        let clip = Clip::new(Image::resize(8, 8)).frames(4).stride(2).draws(Frames::Alone);
        let clip = clip.sampling(FrameSampling::Random).layout(ClipLayout::Ncthw);
        for clip in [clip, Clip::new(Image::center_crop(8)).at_most(9)] {
            let text = serde_json::to_string(&clip).unwrap();
            assert_eq!(serde_json::from_str::<Clip>(&text).unwrap(), clip, "{text}");
        }
        assert!(
            ClipLayout::ALL
                .iter()
                .all(|layout| { serde_json::to_string(layout).unwrap() == format!("{:?}", layout.name()) })
        );
    }
}
