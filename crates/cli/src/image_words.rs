//! Images in words, as `--image` takes them.

use forebay_image::{Image, Raw, Resampling};

/// Parses a column of images and how to decode it, such as "image=rrc224", "image=center224",
/// "image=resize240x320", "depth=resize240x320:image", "image=center224,bicubic" or
/// "pixels=rrc224,raw299x299x3".
pub(super) fn parse_image(text: &str) -> Result<(String, Image), String> {
    let refuse = || {
        format!(
            "{text:?} is not COLUMN=HOW. HOW is rrc224, center224 or resize224x224 (height x width); \
             append :COLUMN to follow the image of another column, ,raw299x299x3 for raw pixels \
             (height x width x channels), or ,bicubic or ,lanczos"
        )
    };
    let (column, how) = text.split_once('=').filter(|(column, _)| !column.is_empty()).ok_or_else(refuse)?;
    let (how, of) = how.split_once(':').map_or((how, None), |(how, of)| (how, Some(of)));
    let mut words = how.split(',');
    let mut image = words.next().and_then(framed).ok_or_else(refuse)?;
    for word in words {
        image = match word.strip_prefix("raw").map(sides) {
            Some(Some([height, width, channels])) => image.raw(Raw::new((height, width), channels)),
            Some(None) => return Err(refuse()),
            None => image.resampling(word.parse::<Resampling>().map_err(|_| refuse())?),
        };
    }
    image.validate().map_err(|error| error.to_string())?;
    Ok((column.to_owned(), of.map_or(image.clone(), |of| image.following(of))))
}

/// Parses the word that says which part of an image is kept and at which size, such as rrc224.
fn framed(word: &str) -> Option<Image> {
    if let Some([side]) = word.strip_prefix("rrc").and_then(sides) {
        return Some(Image::random_resized_crop(side).flip());
    }
    if let Some([side]) = word.strip_prefix("center").and_then(sides) {
        return Some(Image::center_crop(side));
    }
    let [height, width] = word.strip_prefix("resize").and_then(sides)?;
    Some(Image::resize(height, width))
}

/// Parses `N` numbers with an x between them, such as 224x224.
fn sides<const N: usize>(text: &str) -> Option<[u32; N]> {
    let sides: Vec<u32> = text.split('x').map(|side| side.parse().ok()).collect::<Option<_>>()?;
    sides.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_described_in_one_word() {
        let shape = |text| parse_image(text).map(|(column, image)| (column, image.shape()));
        assert_eq!(shape("image=rrc224"), Ok(("image".into(), [224, 224, 3])));
        let (_, depth) = parse_image("depth=resize224x112:image").unwrap();
        assert_eq!(depth, Image::resize(224, 112).following("image"));
        assert_eq!(shape("x=center96"), Ok(("x".into(), [96, 96, 3])));
        assert_eq!(shape("x=resize240x320"), Ok(("x".into(), [240, 320, 3])));
        let (_, raw) = parse_image("x=rrc224,raw299x300x3,bicubic:image").unwrap();
        let crop = Image::random_resized_crop(224).flip().raw(Raw::new((299, 300), 3));
        assert_eq!(raw, crop.resampling(Resampling::Bicubic).following("image"));
        assert_eq!(
            parse_image("x=center8,lanczos").unwrap().1,
            Image::center_crop(8).resampling(Resampling::Lanczos)
        );
        for text in [
            "rrc224",
            "=rrc224",
            "image=",
            "image=rrc",
            "image=rrc0",
            "image=crop224",
            "image=resize224",
            "image=rrc224,",
            "image=rrc224,cubic",
            "image=rrc224,raw299x299",
            "image=rrc224,raw299x299x5",
            "image=raw299x299x3",
        ] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
