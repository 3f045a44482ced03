//! Damaged and hostile pickles are refused within their limits of time and memory.

#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use forebay_petastorm::{Error, ErrorKind, Unischema};

use super::memory::most_bytes;
use super::written::{PLAIN, Parts, bytes, schema};

/// The most memory that reading a schema may take, in bytes.
pub(crate) const MEMORY: usize = 16 << 20;

/// Reads a pickle that must be refused, and checks that this takes at most [`MEMORY`] bytes.
fn refused(pickle: &[u8]) -> Error {
    let (read, memory) = most_bytes(|| Unischema::read(pickle));
    assert!(memory <= MEMORY, "{memory} bytes");
    read.unwrap_err()
}

#[test]
fn a_length_beyond_the_end_is_refused_and_not_allocated() {
    let length = (1u64 << 40).to_le_bytes();
    for opcode in [0x8du8, 0x8e, 0x95] {
        let (read, memory) = most_bytes(|| Unischema::read(&[&[opcode], &length[..], b"abc."].concat()));
        let said = read.unwrap_err().to_string();
        assert!(said.contains("1099511627776 bytes are announced, and 4 follow"), "{said}");
        assert!(memory < 10_000, "{memory}");
    }
    for opcode in [b'T', b'X', b'B', 0x8b] {
        let said = refused(&[opcode, 0xff, 0xff, 0xff, 0xff, b'.']).to_string();
        assert!(said.contains("4294967295 bytes are announced, and 1 follow"), "{said}");
    }
    // The numbers here are indices into the pickle's memory: a large index must not allocate a large table.
    assert!(refused(b"Nr\xff\xff\xff\xffp1099511627776\n0.").to_string().contains("it ends with 0 values"));
}

#[test]
fn what_ends_early_or_late_is_refused() {
    for (pickle, said) in [
        (&b""[..], "at byte 0: 1 bytes are announced, and 0 follow"),
        (b"N", "at byte 1: 1 bytes are announced"),
        (b"cpetastorm", "at byte 1: a line has no end"),
        (b"NN.", "at byte 2: it ends with 2 values instead of one"),
        (b".", "at byte 0: it ends with 0 values"),
        (b"N.N", "at byte 1: 1 bytes follow its end"),
        (b"t", "at byte 0: it lacks a mark"),
        (b"(0t", "at byte 2: it lacks a mark"),
        (b"N(0", "1 bytes are announced"),
        (b"N(00t", "at byte 4: it lacks a mark"),
        (b"N(10t", "at byte 4: it lacks a mark"),
        (b"0", "at byte 0: its stack is empty"),
        (b"2", "at byte 0: its stack is empty"),
        (b"N\x87", "at byte 1: its stack has too few values"),
        (b"Na", "at byte 1: it appends to what is not a list"),
        (b"}Ns", "at byte 2: it stores items in what is not a dictionary"),
        (b"(Nd", "at byte 2: a key lacks its value"),
        (b"NNs", "at byte 2: it stores items in what is not a dictionary"),
        (b"NNNs", "at byte 3: it stores items in what is not a dictionary"),
        (b"}(Nu", "at byte 3: a key lacks its value"),
        (b"NNb", "at byte 2: it gives a state to what is not an object"),
        (b"h\x01", "at byte 0: nothing was put at 1"),
        (b"gx\n", "a place in its memory is not a number"),
        (b"Ix\n", "what should be a number of at most 64 bits is none"),
        (
            b"\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01",
            "what should be a number of at most 64 bits is none",
        ),
        (b"\x80\x06", "it is a pickle of protocol 6; up to 5 are known"),
        (b"\x8c\x01\xff", "at byte 0: a text is not UTF-8"),
        (b"Sabc\n", "at byte 0: a text is not in quotes"),
        (b"V\\u\n", "at byte 0: a text has an escape that is none"),
        (b"NN\x93", "at byte 2: a name is not text"),
        (b"ccollections\nOrderedDict\nNR", "at byte 26: the arguments of a call are not a tuple"),
    ] {
        let error = refused(pickle);
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(said), "{}: {error}", pickle.escape_ascii());
        assert!(error.to_string().contains("petastorm-generate-metadata.py"));
    }
}

#[test]
fn what_goes_on_too_long_or_takes_too_much_is_refused() {
    let repeated =
        |start: &[u8], part: &[u8], end: &[u8]| [start, &part.repeat(4_000_000 / part.len()), end].concat();
    for (what, pickle, limit) in [
        ("values", repeated(b"", b"N", b"."), "bytes"),
        ("marks", repeated(b"", b"(", b"."), "bytes"),
        ("nothing", repeated(b"", b"N0", b"N."), "steps"),
        ("tuples in tuples", repeated(b"", b")\x85", b"."), "bytes"),
        ("one tuple in another, down", repeated(b"N", b"\x85", b"."), "bytes"),
        ("lists in lists", repeated(b"", b"](", b"."), "bytes"),
        ("lists that are appended", [repeated(b"", b"]", b""), b"a".repeat(9)].concat(), "bytes"),
        ("a list of itself", repeated(b"]q\0", b"h\0a", b"."), "bytes"),
        ("a dictionary of itself", repeated(b"}q\0", b"h\0h\0s", b"."), "bytes"),
        ("twice itself", repeated(b"N", b"2\x86q\0h\0", b"."), "bytes"),
        ("the memory", repeated(b"N", b"\x94", b"."), "bytes"),
        ("texts", repeated(b"", b"\x8c\x08abcdefgh", b"."), "bytes"),
        ("calls", repeated(b"", b"ccollections\nOrderedDict\n)R", b"."), "bytes"),
        ("tuples of all", [repeated(b"", b"(NNNNNNN", b""), b"t".repeat(500_000)].concat(), "bytes"),
    ] {
        let error = refused(&pickle);
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{what}: {error}");
        assert!(error.to_string().contains(&format!(" {limit} to read")), "{what}: {error}");
    }
    // The pickle is one text of 14 MiB, which alone exceeds the memory limit.
    let long = [&b"S'"[..], &b"x".repeat(14 << 20), b"'\n."].concat();
    assert_eq!(refused(&long).kind(), ErrorKind::TooLarge);
}

#[test]
fn what_is_shared_among_fields_counts_for_each_of_them() {
    // 1,000 fields refer to one shape of 20,000 dimensions, and to one codec of 20,000 attributes.
    let shape = format!("({}tp1\n", "N".repeat(20_000));
    let attributes = format!("(dS'_image_codec'\nS'.png'\ns{}", "NNs".repeat(20_000));
    let codec = format!("cpetastorm.codecs\nCompressedImageCodec\n)\u{81}{attributes}bp1\n");
    let shared = (Parts { shape: &shape, ..PLAIN }, Parts { shape: "g1\n", ..PLAIN });
    let searched = (Parts { codec: &codec, ..PLAIN }, Parts { codec: "g1\n", ..PLAIN });
    let names: Vec<String> = (0..1000).map(|number| format!("f{number}")).collect();
    for (limit, (first, others)) in [("bytes", shared), ("steps", searched)] {
        let field = |(place, name): (usize, &String)| {
            let parts = if place == 0 { &first } else { &others };
            Parts { name, ..*parts }.as_new()
        };
        let fields = names.iter().enumerate().map(field);
        let fields: Vec<(&str, String)> = names.iter().map(String::as_str).zip(fields).collect();
        let error = refused(&bytes(&schema(&fields)));
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains(&format!(" {limit} to read")), "{error}");
    }
}

#[test]
fn a_type_that_contains_itself_is_refused() {
    let array = "cpyspark.sql.types\nArrayType\n)\u{81}p1\n(dS'elementType'\ng1\nsb";
    let codec = format!("cpetastorm.codecs\nScalarCodec\n)\u{81}(dS'_spark_type'\n{array}sb");
    let error = refused(&bytes(&schema(&[("x", Parts { codec: &codec, ..PLAIN }.as_new())])));
    assert!(error.to_string().contains("arrays more than 8 deep"), "{error}");
}

#[test]
fn a_schema_of_three_thousand_fields_is_read() {
    let names: Vec<String> = (0..3000).map(|number| format!("feature_{number}")).collect();
    let spark_type = super::written::spark("ShortType", &[]);
    let codec = super::written::codec("ScalarCodec", &[("_spark_type", &spark_type)]);
    let field = |name: &String| Parts { name, codec: &codec, ..PLAIN }.as_restored();
    let fields: Vec<(&str, String)> = names.iter().map(|name| (name.as_str(), field(name))).collect();
    let pickle = bytes(&schema(&fields));
    let (read, memory) = most_bytes(|| Unischema::read(&pickle));
    assert_eq!(read.unwrap().fields.len(), 3000);
    assert!(memory <= MEMORY, "{memory}");
}
