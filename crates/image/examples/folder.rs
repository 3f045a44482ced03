//! Decodes the images of a folder into one tensor of `[images, 3, 224, 224]` floats, on all processors.
//!
//! ```console
//! cargo run --release --example folder -- PHOTOS
//! ```

use std::path::PathBuf;
use std::time::Instant;
use std::{env, error, fs};

use forebay_image::{EncodedImage, Image, Layout, PixelType, RowKey, View, decode_many_into};
use rayon::ThreadPoolBuilder;

fn main() -> Result<(), Box<dyn error::Error>> {
    let folder = env::args().nth(1).ok_or("usage: folder PHOTOS")?;
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    paths.retain(|path| path.is_file());
    paths.sort();

    let image = Image::center_crop(224)
        .normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        .dtype(PixelType::F32)
        .layout(Layout::Nchw);
    image.validate()?;
    let files = paths.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
    let mut tensor = vec![0; paths.len() * image.bytes_per_image()];

    let pool = ThreadPoolBuilder::new().build()?;
    let started = Instant::now();
    let slots = tensor.chunks_exact_mut(image.bytes_per_image());
    let images = files.iter().zip(slots);
    let images = images.map(|(file, slot)| EncodedImage::new(file, vec![View::new(&image, RowKey(0), slot)]));
    for (number, error) in decode_many_into(Some(&pool), images.collect()) {
        eprintln!("{}: {error}", paths[number].display());
    }
    let [channels, height, width] = image.shape();
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("[{}, {channels}, {height}, {width}] {} in {seconds:.3} s", paths.len(), image.pixel_type());
    Ok(())
}
