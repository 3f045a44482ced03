//! Decodes the images of a folder into one tensor of `[images, 3, 224, 224]` floats, on all processors.
//!
//! ```console
//! cargo run --release --example folder -- PHOTOS
//! ```

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;
use std::{env, error, fs, thread};

use forebay_image::{Image, Layout, PixelType, RowKey, decode_into};

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
    let mut tensor = vec![0; paths.len() * image.bytes_per_image()];

    let started = Instant::now();
    // Each thread takes the next image together with its slot in the tensor.
    let work = Mutex::new(paths.iter().zip(tensor.chunks_exact_mut(image.bytes_per_image())));
    let next = || work.lock().ok().and_then(|mut work| work.next());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((path, slot)) = next() {
                    let decoded = fs::read(path).map_err(|error| error.to_string()).and_then(|file| {
                        decode_into(&image, &file, RowKey(0), slot).map_err(|error| error.to_string())
                    });
                    if let Err(cause) = decoded {
                        eprintln!("{}: {cause}", path.display());
                    }
                }
            });
        }
    });
    let [channels, height, width] = image.shape();
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("[{}, {channels}, {height}, {width}] {} in {seconds:.3} s", paths.len(), image.pixel_type());
    Ok(())
}
