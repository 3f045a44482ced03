//! Computes which images of a list or of a window (consecutive rows) make up a clip.
//!
//! ```text
//! 10 images    0 1 2 3 4 5 6 7 8 9
//! stride 4     0       4       8
//! 4 images       1   3     6   8      the middle of each of four parts
//! 3, stride 2      2   4   6          in the middle
//! ```

use forebay_image::RowKey;

use super::sampling::FrameSampling;
use crate::column::ViewTag;

/// The rule by which the images of a clip are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    /// The number of images in a clip; `None` if it has all images, or every `stride`-th one.
    pub(super) frames: Option<usize>,
    pub(super) stride: Option<usize>,
    pub(super) sampling: FrameSampling,
}

impl Chosen {
    /// The number of images that a clip has out of `available` ones.
    pub(super) fn count(self, available: usize) -> usize {
        self.frames.unwrap_or_else(|| available.div_ceil(self.stride.unwrap_or(1)))
    }

    /// The ascending indices of the chosen images, from 0 to `available - 1`. At least one image must be
    /// available, unless the clip has all images.
    ///
    /// Without a stride, the images are cut into as many equal parts as the clip has images, and each part
    /// gives its middle image or a random one. This is how temporal segment networks sample (Wang et al.,
    /// ECCV 2016). With a stride, the clip lies in the middle or begins at a random image; if the images end
    /// before the clip, the last one is repeated.
    pub(super) fn indices(self, available: usize, key: RowKey) -> Vec<usize> {
        // Draws a number from 0 to `below - 1`. The argument `number` makes several draws of one row differ.
        let drawn = |number: usize, below: usize| {
            let RowKey(drawn) = ViewTag::for_view("frames").key(key, number as u32);
            ((u128::from(drawn) * below as u128) >> u64::BITS) as usize
        };
        let stride = self.stride.unwrap_or(1);
        let Some(frames) = self.frames else { return (0..available).step_by(stride).collect() };
        if self.stride.is_some() {
            let beyond = available.saturating_sub((frames - 1) * stride + 1);
            let first = match self.sampling {
                FrameSampling::Even => beyond / 2,
                FrameSampling::Random => drawn(0, beyond + 1),
            };
            return (0..frames).map(|at| (first + at * stride).min(available - 1)).collect();
        }
        let image = |at: usize| match self.sampling {
            FrameSampling::Even => (2 * at + 1) * available / (2 * frames),
            FrameSampling::Random => {
                // The length of a part, `available / frames` images, may not be a whole number. The random
                // number therefore counts in units of one image divided by `frames`, and a part has
                // `available` such units.
                (at * available + drawn(at, available)) / frames
            }
        };
        (0..frames).map(image).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(frames: Option<usize>, stride: Option<usize>, sampling: FrameSampling) -> Chosen {
        Chosen { frames, stride, sampling }
    }

    fn even(frames: Option<usize>, stride: Option<usize>, available: usize) -> Vec<usize> {
        chosen(frames, stride, FrameSampling::Even).indices(available, RowKey(7))
    }

    #[test]
    fn images_are_even_or_have_their_stride() {
        assert_eq!(even(None, None, 3), [0, 1, 2]);
        assert_eq!(even(None, Some(4), 10), [0, 4, 8]);
        assert_eq!(even(Some(4), None, 10), [1, 3, 6, 8]);
        assert_eq!(even(Some(3), Some(2), 10), [2, 4, 6]);
        assert_eq!(even(Some(4), None, 4), [0, 1, 2, 3]);
        assert_eq!(even(Some(4), None, 2), [0, 0, 1, 1]);
        assert_eq!(even(Some(4), Some(3), 5), [0, 3, 4, 4]);
        assert_eq!(even(None, None, 0), [0; 0]);
    }

    #[test]
    fn each_part_draws_for_itself() {
        let random = chosen(Some(2), None, FrameSampling::Random);
        let images = (0..300).map(|key| random.indices(200, RowKey(key)));
        let alike = images.filter(|images| images[1] == images[0] + 100).count();
        assert!(alike < 15, "{alike} of 300 rows have the same place in both parts");
    }

    #[test]
    fn random_images_are_of_their_parts_and_each_comes() {
        for (frames, stride, available) in
            [(4, None, 10), (4, None, 3), (1, None, 9), (3, Some(2), 10), (3, Some(9), 5)]
        {
            let random = chosen(Some(frames), stride, FrameSampling::Random);
            let mut seen = vec![0_usize; available];
            for key in 0..3000 {
                let images = random.indices(available, RowKey(key));
                assert_eq!(images, random.indices(available, RowKey(key)));
                assert_eq!((images.len(), random.count(available)), (frames, frames));
                assert!(images.is_sorted() && images[frames - 1] < available);
                for (at, image) in images.iter().enumerate().filter(|_| stride.is_none()) {
                    assert!((at * available / frames..=((at + 1) * available - 1) / frames).contains(image));
                }
                images.iter().for_each(|image| seen[*image] += 1);
            }
            match stride {
                None => {
                    let expected = 3000 * frames / available;
                    assert!(seen.iter().all(|seen| seen.abs_diff(expected) < expected / 5), "{seen:?}");
                }
                Some(2) => assert!(seen.iter().all(|seen| *seen > 300), "{seen:?}"),
                _ => assert!(seen[0] == 3000 && seen[available - 1] == 6000),
            }
        }
    }
}
