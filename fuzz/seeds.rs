//! Writes the seeds of all targets: `seeds FOLDER` makes a folder for each.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use hostile::TARGETS;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("name a folder for the seeds")?);
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(number.to_string()), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
