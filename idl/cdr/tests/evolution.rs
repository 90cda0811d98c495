//! Readers of one version of a type and writers of another, and values that a reader's type does
//! not allow.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use idl_cdr::{
    CdrError, CdrVersion, CdrWriter, DdsType, Encoding, Endianness, Fixed, LongDouble, WChar,
    WString, fingerprint, from_cdr, key_from_cdr, key_to_cdr, key_to_cdr_with, to_cdr, to_cdr_with,
};

const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

/// Returns a value as a reader of `R` reads it.
fn read_as<R: DdsType>(value: &impl DdsType, encoding: Encoding) -> Result<R, CdrError> {
    from_cdr(&to_cdr_with(value, encoding).unwrap())
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Track", extensibility = "appendable")]
struct Track1 {
    id: u16,
    name: String,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Track", extensibility = "appendable")]
struct Track2 {
    id: u16,
    name: String,
    #[dds(default = 7.5)]
    speed: f64,
    #[dds(default = "none")]
    remark: String,
    maybe: Option<u8>,
    level: Level,
    marks: [u16; 3],
    texts: BTreeMap<String, u8>,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
enum Level {
    Low,
    #[dds(default_literal)]
    Middle,
    High,
}

#[test]
fn appendable_type_is_read_with_more_or_fewer_members() {
    let long = Track2 {
        id: 3,
        name: "three".into(),
        speed: 1.0,
        remark: "more".into(),
        maybe: Some(4),
        level: Level::High,
        marks: [1, 2, 3],
        texts: BTreeMap::new(),
    };
    let short = Track1 { id: 3, name: "three".into() };
    for encoding in ENCODINGS {
        assert_eq!(read_as::<Track1>(&long, encoding).unwrap(), short);
        let filled = Track2 {
            speed: 7.5,
            remark: "none".into(),
            maybe: None,
            level: Level::Middle,
            marks: [0; 3],
            ..long.clone()
        };
        assert_eq!(read_as::<Track2>(&short, encoding).unwrap(), filled);
    }
    assert_ne!(fingerprint::<Track1>(), fingerprint::<Track2>());
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Outer")]
struct Outer1 {
    first: Vec<Track1>,
    second: Track1,
    last: u32,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Outer")]
struct Outer2 {
    first: Vec<Track2>,
    second: Track2,
    last: u32,
}

/// If each type carries its size, nested types may change too.
#[test]
fn nested_appendable_type_is_read_with_more_or_fewer_members() {
    let short = Track1 { id: 3, name: "three".into() };
    let outer = Outer1 { first: vec![short.clone(); 2], second: short.clone(), last: 9 };
    for endianness in [Endianness::Big, Endianness::Little] {
        let encoding = Encoding { version: CdrVersion::Xcdr2, endianness };
        let long = read_as::<Outer2>(&outer, encoding).unwrap();
        assert_eq!((long.first.len(), long.first[1].speed, long.last), (2, 7.5, 9));
        assert_eq!(read_as::<Outer1>(&long, encoding).unwrap(), outer);
    }
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Plan", extensibility = "mutable")]
struct Plan1 {
    #[dds(key, id = 5)]
    number: u32,
    #[dds(id = 2)]
    name: String,
    #[dds(id = 70000)]
    large: Vec<u8>,
    #[dds(id = 8)]
    gone: Option<f64>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Plan", extensibility = "mutable")]
struct Plan2 {
    #[dds(id = 70000)]
    large: Vec<u8>,
    #[dds(id = 9, default = 1.5)]
    new: f32,
    #[dds(key, id = 5)]
    number: u32,
    #[dds(id = 2)]
    name: String,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Plan", extensibility = "mutable")]
struct Plan3 {
    #[dds(key, id = 5)]
    number: u32,
    #[dds(id = 12, must_understand)]
    vital: bool,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Plan", extensibility = "mutable")]
struct Plan4 {
    #[dds(id = 2)]
    name: String,
}

#[test]
fn mutable_type_members_are_matched_by_id() {
    // Larger than the length in a short header can express.
    for size in [0, 5, 70_000] {
        let large = vec![7; size];
        let one = Plan1 { number: 1, name: "one".into(), large, gone: Some(2.5) };
        for encoding in ENCODINGS {
            let two = read_as::<Plan2>(&one, encoding).unwrap();
            let Plan1 { number, name, large, .. } = one.clone();
            assert_eq!(two, Plan2 { large, new: 1.5, number, name });
            assert_eq!(
                read_as::<Plan1>(&two, encoding).unwrap(),
                Plan1 { gone: None, ..one.clone() }
            );
        }
    }
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Large {
    octets: Option<Vec<u8>>,
    texts: Option<Vec<String>>,
    last: u8,
}

/// A header of XCDR1 that turns out too short is replaced by a long one.
#[test]
fn long_value_has_long_parameter_header() {
    for size in [0xfffb, 0xfffc, 0xfffd, 70_000] {
        let octets = Some((0..size).map(|number| number as u8).collect());
        let texts = Some(vec!["a".to_owned(), "b".repeat(size)]);
        let large = Large { octets, texts, last: 7 };
        for encoding in ENCODINGS {
            let payload = to_cdr_with(&large, encoding).unwrap();
            assert_eq!(from_cdr::<Large>(&payload).unwrap(), large);
            if encoding == Encoding::CDR_LE {
                assert_eq!(payload[4] == 0x01 && payload[5] == 0x7f, size + 4 > 0xffff, "{size}");
            }
        }
    }
}

#[test]
fn reader_rejects_unknown_or_missing_must_understand_member() {
    let three = Plan3 { number: 1, vital: true };
    let four = Plan4 { name: "four".into() };
    for encoding in ENCODINGS {
        let error = read_as::<Plan2>(&three, encoding).unwrap_err();
        assert!(matches!(error, CdrError::UnknownMember { id: 12, .. }), "{error}");
        let error = read_as::<Plan2>(&four, encoding).unwrap_err();
        assert!(matches!(error, CdrError::MissingMember { id: 5, .. }), "{error}");
        // A reader must understand key members.
        let error = read_as::<Plan4>(&three, encoding).unwrap_err();
        assert!(matches!(error, CdrError::UnknownMember { id: 5, .. }), "{error}");
    }
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Loose")]
struct Loose {
    before: u8,
    text: String,
    words: Vec<String>,
    level: i32,
    wide: WString,
    choice: LooseChoice,
    after: u32,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Loose")]
struct Strict {
    before: u8,
    #[dds(bound = 3, try_construct = "trim")]
    text: String,
    #[dds(bound = [2, 4], try_construct = "use_default")]
    words: Vec<String>,
    #[dds(try_construct = "use_default", default = Level::High)]
    level: Level,
    #[dds(bound = 2, try_construct = "trim")]
    wide: WString,
    #[dds(try_construct = "use_default")]
    choice: StrictChoice,
    after: u32,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(
    crate = "idl_cdr",
    name = "Choice",
    union,
    discriminator = "u8",
    extensibility = "appendable"
)]
enum LooseChoice {
    #[dds(case = 1)]
    Known(u16),
    #[dds(case = 2)]
    Unknown(u64),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(
    crate = "idl_cdr",
    name = "Choice",
    union,
    discriminator = "u8",
    extensibility = "appendable"
)]
enum StrictChoice {
    #[dds(case = 1)]
    Known(u16),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Loose")]
struct Discarding {
    before: u8,
    #[dds(bound = 3)]
    text: String,
    #[dds(bound = [2, 4], try_construct = "discard")]
    words: Vec<String>,
    level: Level,
    #[dds(bound = 2)]
    wide: WString,
    choice: StrictChoice,
    after: u32,
}

#[test]
fn disallowed_value_is_discarded_defaulted_or_trimmed() {
    let fine = Loose {
        before: 1,
        text: "abc".into(),
        words: vec!["word".into()],
        level: 0,
        wide: "ab".into(),
        choice: LooseChoice::Known(5),
        after: 9,
    };
    let wrong = Loose {
        text: "ab\u{e9}d".into(),
        words: vec!["words".into()],
        level: 77,
        wide: "a\u{1f600}".into(),
        choice: LooseChoice::Unknown(3),
        ..fine.clone()
    };
    let encoding = Encoding::PLAIN_CDR2_LE;
    let kept = read_as::<Strict>(&fine, encoding).unwrap();
    assert_eq!((kept.text.as_str(), kept.words.len(), kept.level), ("abc", 1, Level::Low));
    assert_eq!(kept.choice, StrictChoice::Known(5));
    let mended = read_as::<Strict>(&wrong, encoding).unwrap();
    assert_eq!(
        mended,
        Strict {
            before: 1,
            // The text is truncated at the end of a character.
            text: "ab".into(),
            words: Vec::new(),
            level: Level::High,
            wide: "a".into(),
            choice: StrictChoice::Known(0),
            after: 9,
        }
    );
    assert!(read_as::<Discarding>(&fine, encoding).is_ok());
    for one in [
        Loose { text: wrong.text.clone(), ..fine.clone() },
        Loose { words: wrong.words.clone(), ..fine.clone() },
        Loose { words: vec![String::new(); 3], ..fine.clone() },
        Loose { level: wrong.level, ..fine.clone() },
        Loose { wide: wrong.wide.clone(), ..fine.clone() },
        Loose { choice: wrong.choice.clone(), ..fine.clone() },
    ] {
        assert!(read_as::<Strict>(&one, encoding).is_ok(), "{one:?}");
        assert!(read_as::<Discarding>(&one, encoding).is_err(), "{one:?}");
    }
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Node {
    next: Option<Box<Node>>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Link {
    next: Option<Box<Link>>,
}

/// The input does not decide the use of the stack.
#[test]
fn nesting_depth_is_limited_on_write_and_read() {
    let chain = |length| {
        (1..length).fold(Node { next: None }, |node, _| Node { next: Some(Box::new(node)) })
    };
    for encoding in ENCODINGS {
        let deep = chain(129);
        assert_eq!(read_as::<Node>(&deep, encoding).unwrap(), deep);
        let error = to_cdr_with(&chain(130), encoding).unwrap_err();
        assert!(matches!(error.root(), CdrError::TooDeep { .. }), "{error}");
    }
    let ones = |count| [&[0, 7, 0, 0][..], &vec![1; count], &[0]].concat();
    assert!(from_cdr::<Link>(&ones(128)).is_ok());
    for count in [129, 1 << 20] {
        let error = from_cdr::<Link>(&ones(count)).unwrap_err();
        assert!(matches!(error.root(), CdrError::TooDeep { .. }), "{error}");
    }
}

/// Types absent from the other tests: the bytes of wide text, of numbers that Rust lacks, and of
/// the label of a default case.
#[test]
fn rare_types_are_encoded_as_in_standard() {
    fn body(value: &impl DdsType, encoding: Encoding) -> Vec<u8> {
        let payload = to_cdr_with(value, encoding).unwrap();
        payload[4..payload.len() - usize::from(payload[3])].to_vec()
    }
    let (big, little) = (Encoding::CDR_BE, Encoding::PLAIN_CDR2_LE);
    assert_eq!(body(&WString::from("a\u{20ac}"), big), [0, 0, 0, 4, 0, b'a', 0x20, 0xac]);
    assert_eq!(body(&WChar(0x20ac), little), [0xac, 0x20]);
    assert_eq!(body(&'\u{e9}', little), [0xe9]);
    assert!(matches!(to_cdr(&'\u{20ac}'), Err(CdrError::WideCharacter { found: '\u{20ac}', .. })));
    let one = LongDouble::from(1.0);
    assert_eq!(body(&one, big), [0x3f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(body(&Fixed::<3, 1>::from_units(-125).unwrap(), little), [0x12, 0x5d]);
    // Sixteen-byte numbers are aligned to eight bytes in XCDR1, to four in XCDR2.
    for (encoding, offset) in [(Encoding::CDR_LE, 8), (little, 4)] {
        let mut buffer = [0xee; 32];
        let mut writer = CdrWriter::over(&mut buffer, encoding);
        1_u8.serialize(&mut writer).unwrap();
        one.serialize(&mut writer).unwrap();
        assert_eq!(writer.position(), offset + 16);
    }
    let map: BTreeMap<u8, u16> = [(3, 4), (1, 2)].into();
    assert_eq!(body(&map, little), [2, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0]);
    let map: BTreeMap<String, u8> = [("a".to_owned(), 2)].into();
    assert_eq!(body(&map, little), [11, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 2]);
    let twice = [0, 7, 0, 0, 2, 0, 0, 0, 1, 9, 1, 9];
    assert_eq!(from_cdr::<BTreeMap<u8, u8>>(&twice), Err(CdrError::DuplicateKey { offset: 10 }));
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "Level", discriminator_key)]
enum ByLevel {
    #[dds(case = Level::Low, Level::High)]
    Some(u64),
    #[dds(default)]
    Rest,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "WChar")]
enum ByCharacter {
    #[dds(case = 'a', '\0')]
    Some(u8),
    #[dds(default)]
    Rest(u8),
}

#[test]
fn union_reads_every_label_and_writes_first_label() {
    let some = ByLevel::Some(7);
    let payload = to_cdr(&some).unwrap();
    assert_eq!(payload[4..8], [0; 4]);
    let high = [&[0, 7, 0, 0, 2, 0, 0, 0][..], &payload[8..]].concat();
    assert_eq!(from_cdr::<ByLevel>(&high).unwrap(), some);
    // The first label that no case has.
    assert_eq!(to_cdr(&ByLevel::Rest).unwrap(), [0, 7, 0, 0, 1, 0, 0, 0]);
    assert_eq!(key_to_cdr(&some).unwrap(), [0; 4]);
    assert_eq!(idl_cdr::key_hash(&ByLevel::Rest).unwrap()[..5], [0, 0, 0, 1, 0]);
    assert_eq!(to_cdr(&ByCharacter::Rest(3)).unwrap(), [0, 7, 0, 1, 1, 0, 3, 0]);
    assert_eq!(from_cdr::<ByCharacter>(&[0, 7, 0, 1, 0, 0, 3, 0]).unwrap(), ByCharacter::Some(3));
}

/// The hash is the key itself only if the key of every value fits.
#[test]
fn key_hash_is_raw_key_only_if_longest_key_fits() {
    fn is_raw<T: DdsType>(value: &T) -> bool {
        let key = key_to_cdr(value).unwrap();
        let raw = [&key[..], &[0; 16]].concat();
        idl_cdr::key_hash(value).unwrap()[..] == raw[..16]
    }
    macro_rules! keyed {
        ($name:ident, $key:ty $(, $attribute:meta)?) => {
            #[derive(DdsType)]
            #[dds(crate = "idl_cdr")]
            struct $name {
                #[dds(key)]
                $(#[$attribute])?
                key: $key,
            }
        };
    }
    keyed!(Text, String);
    keyed!(ShortText, String, dds(bound = 11));
    keyed!(LongText, String, dds(bound = 12));
    keyed!(Numbers, [u32; 4]);
    keyed!(Enums, [Level; 3]);
    keyed!(MoreEnums, [Level; 4]);
    keyed!(Octets, Vec<u8>, dds(bound = 12));
    keyed!(More, Vec<u8>, dds(bound = 13));
    assert!(!is_raw(&Text { key: "a".into() }));
    assert!(is_raw(&ShortText { key: "a".into() }));
    assert!(!is_raw(&LongText { key: "a".into() }));
    assert!(is_raw(&Numbers { key: [1, 2, 3, 4] }));
    assert!(is_raw(&Enums { key: [Level::High; 3] }));
    assert!(!is_raw(&MoreEnums { key: [Level::High; 4] }));
    assert!(is_raw(&Octets { key: vec![1] }));
    assert!(!is_raw(&More { key: vec![1] }));
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Keyed {
    #[dds(key, id = 9)]
    late: u16,
    other: String,
    #[dds(key, id = 3)]
    nested: KeyedPart,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct KeyedPart {
    rest: u64,
    #[dds(key)]
    text: String,
}

/// The payload of a key-only sample is framed like the type, with members in the order of
/// declaration. The form for hashing has neither property.
#[test]
fn key_only_payload_is_framed_like_its_type() {
    let nested = KeyedPart { rest: 1, text: "ab".into() };
    let value = Keyed { late: 0x0102, other: "no".into(), nested: nested.clone() };
    let payload = key_to_cdr_with(&value, Encoding::PLAIN_CDR2_LE).unwrap();
    #[rustfmt::skip]
    let expected = [
        0, 0x0b, 0, 1, // the parameter list of XCDR2, and a byte of padding
        23, 0, 0, 0,
        9, 0, 0, 0x90, 2, 1, 0, 0, // two bytes, must be understood
        3, 0, 0, 0xd0, 7, 0, 0, 0, // the size in front of the part
        3, 0, 0, 0, b'a', b'b', 0,
        0,
    ];
    assert_eq!(payload, expected);
    assert_eq!(key_to_cdr(&value).unwrap(), [0, 0, 0, 3, b'a', b'b', 0, 0, 1, 2]);
    for encoding in ENCODINGS {
        let payload = key_to_cdr_with(&value, encoding).unwrap();
        let key = key_from_cdr::<Keyed>(&payload).unwrap();
        assert_eq!(key.nested, KeyedPart { rest: 0, ..nested.clone() }, "{encoding:?}");
        assert_eq!((key.late, key.other.as_str()), (0x0102, ""));
        // A whole sample is not accepted as a key, nor a key as a sample.
        assert!(from_cdr::<Keyed>(&key_to_cdr_with(&nested, encoding).unwrap()).is_err());
        for end in 4..payload.len() - 3 {
            assert!(key_from_cdr::<Keyed>(&payload[..end]).is_err(), "{encoding:?} {end}");
        }
    }
}
