//! Recognises files that are not Parquet by their first bytes or their names, and says how to convert them.

/// A format other than Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherFormat {
    Image,
    Csv,
    Json,
    Arrow,
    Orc,
    Avro,
    Numpy,
    Hdf5,
    TfRecord,
    /// Tar archives, and shards of MosaicML's streaming format (MDS).
    Shards,
    Archive,
    Page,
    LfsPointer,
}

/// The first bytes by which formats are recognised.
const BEGINNINGS: [(&[u8], OtherFormat); 19] = [
    (b"\xff\xd8\xff", OtherFormat::Image),
    (b"\x89PNG", OtherFormat::Image),
    (b"GIF8", OtherFormat::Image),
    (b"BM", OtherFormat::Image),
    (b"II*\0", OtherFormat::Image),
    (b"MM\0*", OtherFormat::Image),
    (b"ARROW1", OtherFormat::Arrow),
    (b"FEA1", OtherFormat::Arrow),
    (b"ORC", OtherFormat::Orc),
    (b"Obj\x01", OtherFormat::Avro),
    (b"\x93NUMPY", OtherFormat::Numpy),
    (b"\x89HDF", OtherFormat::Hdf5),
    (b"PK\x03\x04", OtherFormat::Archive),
    (b"\x1f\x8b", OtherFormat::Archive),
    (b"\x28\xb5\x2f\xfd", OtherFormat::Archive),
    (b"<", OtherFormat::Page),
    (b"{", OtherFormat::Json),
    (b"[", OtherFormat::Json),
    (b"version ", OtherFormat::LfsPointer),
];

/// The suffixes of names by which formats are recognised.
const ENDS: [(&str, OtherFormat); 37] = [
    (".jpg", OtherFormat::Image),
    (".jpeg", OtherFormat::Image),
    (".png", OtherFormat::Image),
    (".webp", OtherFormat::Image),
    (".gif", OtherFormat::Image),
    (".bmp", OtherFormat::Image),
    (".tif", OtherFormat::Image),
    (".tiff", OtherFormat::Image),
    (".heic", OtherFormat::Image),
    (".avif", OtherFormat::Image),
    (".jxl", OtherFormat::Image),
    (".csv", OtherFormat::Csv),
    (".tsv", OtherFormat::Csv),
    (".csv.gz", OtherFormat::Csv),
    (".tsv.gz", OtherFormat::Csv),
    (".json", OtherFormat::Json),
    (".jsonl", OtherFormat::Json),
    (".ndjson", OtherFormat::Json),
    (".json.gz", OtherFormat::Json),
    (".jsonl.gz", OtherFormat::Json),
    (".jsonl.zst", OtherFormat::Json),
    (".arrow", OtherFormat::Arrow),
    (".feather", OtherFormat::Arrow),
    (".ipc", OtherFormat::Arrow),
    (".orc", OtherFormat::Orc),
    (".avro", OtherFormat::Avro),
    (".npy", OtherFormat::Numpy),
    (".npz", OtherFormat::Numpy),
    (".h5", OtherFormat::Hdf5),
    (".hdf5", OtherFormat::Hdf5),
    (".tfrecord", OtherFormat::TfRecord),
    (".tar", OtherFormat::Shards),
    (".mds", OtherFormat::Shards),
    (".zip", OtherFormat::Archive),
    (".tgz", OtherFormat::Archive),
    (".gz", OtherFormat::Archive),
    (".zst", OtherFormat::Archive),
];

impl OtherFormat {
    /// The format that a file's first bytes show. If they show none, or not enough, its name counts.
    pub(super) fn of_file(head: &[u8], name: &str) -> Option<Self> {
        let begins = BEGINNINGS.iter().find(|(beginning, _)| head.starts_with(beginning));
        let by_bytes = begins.map(|(_, other)| *other);
        match (by_bytes, OtherFormat::of_name(name)) {
            // The name counts here, because it says more about a compressed file, and because some images
            // begin like other files.
            (Some(OtherFormat::Archive | OtherFormat::Json | OtherFormat::Page) | None, Some(by_name)) => {
                Some(by_name)
            }
            (by_bytes, _) => by_bytes,
        }
    }

    /// The format that the suffix of a file's name shows.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        ENDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, other)| *other)
    }

    /// A sentence that names the format, and says how to convert it.
    pub(super) fn hint(self) -> &'static str {
        match self {
            OtherFormat::Image => {
                "images are read from a column of Parquet files: forebay write FOLDER OUT makes them from a folder of images"
            }
            OtherFormat::Csv => "CSV is not read: write it as Parquet first, with forebay write FROM OUT",
            OtherFormat::Json => "JSON is not read: write it as Parquet first, with forebay write FROM OUT",
            OtherFormat::Arrow => {
                "files of Arrow are not read: write their tables as Parquet first, with forebay write FROM OUT"
            }
            OtherFormat::Orc => {
                "ORC is not read: write it as Parquet first, with pyarrow.orc and pyarrow.parquet for example"
            }
            OtherFormat::Avro => {
                "Avro is not read: write it as Parquet first, with Spark or DuckDB for example"
            }
            OtherFormat::Numpy => {
                "arrays of NumPy are read from a column of Parquet files: write them as tensors of pyarrow"
            }
            OtherFormat::Hdf5 => {
                "HDF5 is not read: write its arrays as columns of Parquet first, with h5py and pyarrow"
            }
            OtherFormat::TfRecord => {
                "TFRecord is not read: write its records as rows of Parquet first, with TensorFlow and pyarrow"
            }
            OtherFormat::Shards => {
                "tars of WebDataset and shards of MDS are written as Parquet first, with forebay write FROM OUT"
            }
            OtherFormat::Archive => {
                "it is compressed or an archive: unpack it, and write what is in it as Parquet"
            }
            OtherFormat::Page => {
                "it is a page of the web or XML: a login page or an error may have been saved in place of the file"
            }
            OtherFormat::LfsPointer => "it may be a pointer of Git LFS: git lfs pull brings the file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_first_bytes_and_else_by_its_name() {
        for (head, name, other) in [
            (&b"\xff\xd8\xff\xe0"[..], "a.parquet", Some(OtherFormat::Image)),
            (b"a,b\n1,2\n", "A.CSV", Some(OtherFormat::Csv)),
            (b"\x1f\x8b\x08", "a.csv.gz", Some(OtherFormat::Csv)),
            (b"\x1f\x8b\x08", "a.parquet.gz", Some(OtherFormat::Archive)),
            (b"{\"a\": 1}", "a.jsonl", Some(OtherFormat::Json)),
            (b"{\"a\": 1}", "data", Some(OtherFormat::Json)),
            (b"RIFF\x10\0\0\0", "a.webp", Some(OtherFormat::Image)),
            (b"<html>\n", "a.parquet", Some(OtherFormat::Page)),
            (b"version ", "a.parquet", Some(OtherFormat::LfsPointer)),
            (b"hello", "a.parquet", None),
        ] {
            assert_eq!(OtherFormat::of_file(head, name), other, "{name}");
        }
    }
}
