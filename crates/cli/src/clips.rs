//! Columns of lists of images, or of the images of windows, that are decoded to clips.

use std::collections::HashSet;

use forebay::column::{Clip, ClipLayout, FrameSampling};
use forebay::samples::Frames;
use forebay_image::Image;

use super::image_words::parse_image;

/// A column that is decoded to clips.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClipColumn {
    pub(crate) column: String,
    image: Image,
    words: Vec<ClipWord>,
}

/// An option of a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ClipWord {
    Frames(u32),
    AtMost(u32),
    Stride(u32),
    Sampling(FrameSampling),
    Draws(Frames),
    Layout(ClipLayout),
}

impl ClipColumn {
    /// Parses a column and its clips, such as "video=rrc224,frames=8,stride=2,layout=NCTHW": an image, as for
    /// `--image`, and options of `fb.Clip`.
    pub(crate) fn parse(text: &str) -> Result<ClipColumn, String> {
        let (column, how) = text.split_once('=').ok_or_else(|| refused(text))?;
        let (options, image): (Vec<&str>, Vec<&str>) = how.split(',').partition(|word| word.contains('='));
        let mut names = HashSet::new();
        if let Some((name, _)) =
            options.iter().filter_map(|word| word.split_once('=')).find(|(name, _)| !names.insert(*name))
        {
            return Err(format!("{name}= is given twice in {text:?}: leave one of them out"));
        }
        let image = format!("{column}={}", image.join(","));
        let (column, image) = parse_image(&image).map_err(|_| refused(text))?;
        let words: Option<Vec<ClipWord>> = options.iter().map(|word| ClipWord::parse(word)).collect();
        let parsed = ClipColumn { column, image, words: words.ok_or_else(|| refused(text))? };
        parsed.clip(Image::clone).validate().map_err(|error| error.to_string())?;
        Ok(parsed)
    }

    /// The number of values of each image.
    pub(crate) fn values(&self) -> usize {
        self.image.shape().iter().product()
    }

    /// Converts this column to the `Clip` that a loader takes. `changed` adapts the column's `Image` first.
    pub(crate) fn clip(&self, changed: impl FnOnce(&Image) -> Image) -> Clip {
        self.words.iter().fold(Clip::new(changed(&self.image)), |clip, word| match *word {
            ClipWord::Frames(frames) => clip.frames(frames),
            ClipWord::AtMost(frames) => clip.at_most(frames),
            ClipWord::Stride(images) => clip.stride(images),
            ClipWord::Sampling(sampling) => clip.sampling(sampling),
            ClipWord::Draws(draws) => clip.draws(draws),
            ClipWord::Layout(layout) => clip.layout(layout),
        })
    }
}

impl ClipWord {
    fn parse(word: &str) -> Option<ClipWord> {
        let (name, value) = word.split_once('=')?;
        let number = || value.parse().ok();
        Some(match name {
            "frames" => ClipWord::Frames(number()?),
            "at_most" => ClipWord::AtMost(number()?),
            "stride" => ClipWord::Stride(number()?),
            "sampling" => ClipWord::Sampling(match value {
                "even" => FrameSampling::Even,
                "random" => FrameSampling::Random,
                _ => return None,
            }),
            "draws" => ClipWord::Draws(match value {
                "together" => Frames::Together,
                "alone" => Frames::Alone,
                _ => return None,
            }),
            "layout" => ClipWord::Layout(ClipLayout::ALL.into_iter().find(|layout| layout.name() == value)?),
            _ => return None,
        })
    }
}

fn refused(text: &str) -> String {
    format!(
        "{text:?} is not COLUMN=HOW. HOW is an image, as for --image, with options of a clip: frames=8, at_most=32, \
         stride=4, sampling=random, draws=alone and layout=NCTHW (or NTCHW or NTHWC), such as \
         {:?}",
        "video=rrc224,frames=8"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_is_described_in_one_word() {
        let crop = || Image::random_resized_crop(24).flip();
        let clip = |text| ClipColumn::parse(text).map(|clip| (clip.column.clone(), clip.clip(Image::clone)));
        assert_eq!(clip("x=rrc24,frames=8"), Ok(("x".to_owned(), Clip::new(crop()).frames(8))));
        let all = Clip::new(crop()).frames(4).stride(2).sampling(FrameSampling::Random);
        let all = all.draws(Frames::Alone).layout(ClipLayout::Ncthw);
        let text = "x=rrc24,frames=4,stride=2,sampling=random,draws=alone,layout=NCTHW";
        assert_eq!(clip(text), Ok(("x".to_owned(), all)));
        assert_eq!(
            clip("x=center8,at_most=9"),
            Ok(("x".to_owned(), Clip::new(Image::center_crop(8)).at_most(9)))
        );
        for text in
            ["x", "x=frames=8", "=rrc24", "x=rrc24,frames=a", "x=rrc24,layout=nhwc", "x=rrc24,length=8"]
        {
            assert!(clip(text).unwrap_err().contains("such as \"video=rrc224,frames=8\""), "{text}");
        }
        assert!(clip("x=rrc24,frames=4,frames=5").unwrap_err().contains("frames= is given twice"));
        assert!(clip("x=rrc24,frames=0").unwrap_err().contains("frames of 0"));
        assert!(clip("x=rrc24:y,frames=2").unwrap_err().contains("follow others"));
    }
}
