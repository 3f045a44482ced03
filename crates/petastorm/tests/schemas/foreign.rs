//! Tests that pickles are refused if Python would run foreign code to unpickle them.

use forebay_petastorm::{ErrorKind, Unischema};

use super::written::{PLAIN, Parts, read, schema};

#[test]
fn a_name_that_no_schema_has_is_refused_with_its_place() {
    for (pickle, named) in [
        ("cos\nsystem\n(S'true'\ntR.", "the schema names `os.system` at byte 0"),
        ("cposix\nsystem\n(S'true'\ntR.", "the schema names `posix.system` at byte 0"),
        ("c__builtin__\nexec\n(S'1'\ntR.", "the schema names `__builtin__.exec` at byte 0"),
        ("cbuiltins\nexec\n(S'1'\ntR.", "the schema names `builtins.exec` at byte 0"),
        ("c__builtin__\neval\n(S'1'\ntR.", "the schema names `__builtin__.eval` at byte 0"),
        (
            "cnumpy.testing._private.utils\nrunstring\n(S'1'\n(dtR.",
            "the schema names `numpy.testing._private.utils.runstring` at byte 0",
        ),
        ("cnumpy\nload\n(S'x.npy'\ntR.", "the schema names `numpy.load` at byte 0"),
        (
            "(c__builtin__\ngetattr\n(c__builtin__\n__import__\n(S'os'\ntRS'system'\ntR.",
            "the schema names `__builtin__.getattr` at byte 1",
        ),
        ("(S'true'\nios\nsystem\n.", "the schema names `os.system` at byte 9"),
        ("\u{80}\u{4}\u{8c}\u{2}os\u{8c}\u{6}system\u{93}.", "the schema names `os.system` at byte 14"),
        // Python resolves dots in a name, so this one would reach `os.system` through a known module.
        ("cpetastorm.codecs\ncv2.os.system\n", "the schema names `petastorm.codecs.cv2.os.system` at byte 0"),
        ("cpetastorm.codecs\nMyCodec\n", "the schema names `petastorm.codecs.MyCodec` at byte 0"),
        ("cmine\nMyCodec\n", "the schema names `mine.MyCodec` at byte 0"),
    ] {
        let error = read(pickle).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(
            error.to_string(),
            format!(
                "{named}, which no Petastorm schema does (it was not imported or run here, and other readers of \
                 this data set may do so)"
            )
        );
    }
}

#[test]
fn a_call_hidden_in_a_schema_is_refused_with_its_place() {
    let hidden = Parts { codec: "cos\nsystem\n(S'true'\ntR", ..PLAIN }.as_restored();
    let pickle = schema(&[("y", Parts { name: "y", ..PLAIN }.as_new()), ("x", hidden)]);
    let place = pickle.find("cos\n").unwrap();
    let error = read(&pickle).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("the schema names `os.system` at byte {}", bytes_before(&pickle, place)))
    );
}

fn bytes_before(pickle: &str, place: usize) -> usize {
    pickle[..place].chars().count()
}

#[test]
fn names_that_schemas_have_do_nothing_in_other_places() {
    for pickle in [
        // Each of these calls something that is not a name, such as the result of a call or a number, or
        // calls with a name in place of the arguments.
        "ccollections\nOrderedDict\n(tR(tR.",
        "I1\n(tR.",
        "ccopy_reg\n_reconstructor\nccopy_reg\n_reconstructor\nR.",
        // These calls are valid by themselves, but do not make a schema.
        "cpyspark.serializers\n_restore\n(S'os'\n(S'system'\nt(S'true'\nttR.",
        "c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
        "cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",
        "cpetastorm.unischema\nUnischema\n.",
        "cpetastorm.unischema\nUnischema\n)\u{81}.",
        "N.",
    ] {
        assert_eq!(read(pickle).unwrap_err().kind(), ErrorKind::Corrupt, "{pickle}");
    }
}

#[test]
fn instructions_that_no_schema_has_are_refused_by_number() {
    // In this order: persistent ids, extension codes, a call with keywords, a byte array, buffers outside
    // the pickle, sets, floats, an instance of an old-style class, and an unknown opcode.
    for opcode in
        [b'P', b'Q', 0x82, 0x83, 0x84, 0x92, 0x96, 0x97, 0x98, 0x8f, 0x90, 0x91, b'F', b'G', b'o', 0xff]
    {
        let error = Unischema::read(&[b'N', opcode, 0, 0, b'\n', b'.']).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let said = format!("at byte 1: it has the instruction {opcode:#04x}, which no Petastorm schema does");
        assert!(error.to_string().contains(&said), "{error}");
    }
}

#[test]
fn a_long_name_is_shortened() {
    let said = read(&format!("cos\n{}\n.", "x".repeat(100_000))).unwrap_err().to_string();
    assert!(said.len() < 300 && said.contains("xxx...` at byte 0"), "{said}");
}
