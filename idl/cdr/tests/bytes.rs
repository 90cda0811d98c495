//! The exact bytes of values: alignment, byte orders, headers, sizes of collections, keys.

#![allow(clippy::unwrap_used)]

use idl_cdr::{
    CdrError, CdrReader, CdrWriter, DdsType, Encoding, Extensibility, StringFault, fingerprint,
    from_cdr, key_to_cdr, serialize_into, serialize_key_into, serialized_size, to_cdr, to_cdr_with,
};

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Test::Mixed")]
struct Mixed {
    small: u8,
    wide: u64,
    flag: bool,
    half: u16,
    real: f32,
}

const MIXED: Mixed =
    Mixed { small: 0x11, wide: 0x0102_0304_0506_0708, flag: true, half: 0x2122, real: 1.0 };

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
#[repr(i16)]
enum Phase {
    Taxi = -1,
    Cruise = 4,
    #[dds(name = "LANDING")]
    Landing,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Bounded {
    #[dds(bound = 3)]
    name: String,
    #[dds(bound = [2, 4])]
    tags: Vec<String>,
    #[dds(bound = [_, 1])]
    grid: [Vec<Vec<u8>>; 1],
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Flight {
    #[dds(key)]
    number: u16,
    remark: String,
    #[dds(key)]
    airline: Airline,
    #[dds(key)]
    stand: Stand,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Airline {
    #[dds(key)]
    code: u32,
    name: String,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Stand {
    row: u8,
    place: u8,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Empty {}

/// Returns the body of a value, without the header.
fn body<T: DdsType>(value: &T, encoding: Encoding) -> Vec<u8> {
    let payload = to_cdr_with(value, encoding).unwrap();
    let padding = usize::from(payload[3]);
    payload[4..payload.len() - padding].to_vec()
}

#[test]
fn xcdr1_aligns_to_eight_and_xcdr2_to_four() {
    assert_eq!(
        body(&MIXED, Encoding::CDR_LE),
        [
            0x11, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, //
            1, 0, 0x22, 0x21, 0, 0, 0x80, 0x3f,
        ]
    );
    assert_eq!(
        body(&MIXED, Encoding::PLAIN_CDR2_BE),
        [0x11, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0x21, 0x22, 0x3f, 0x80, 0, 0]
    );
}

#[test]
fn value_survives_round_trip_in_every_encoding() {
    for encoding in
        [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE]
    {
        assert_eq!(from_cdr::<Mixed>(&to_cdr_with(&MIXED, encoding).unwrap()).unwrap(), MIXED);
    }
}

#[test]
fn payload_header_states_encoding_and_padding() {
    assert_eq!(to_cdr(&0x55_u8).unwrap(), [0, 7, 0, 3, 0x55, 0, 0, 0]);
    assert_eq!(to_cdr_with(&1_u32, Encoding::CDR_BE).unwrap(), [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(to_cdr(&Empty {}).unwrap(), [0, 7, 0, 0]);
}

#[test]
fn string_is_encoded_with_length_and_nul() {
    assert_eq!(body(&"ab".to_owned(), Encoding::CDR_LE), [3, 0, 0, 0, b'a', b'b', 0]);
    assert_eq!(body(&String::new(), Encoding::CDR_LE), [1, 0, 0, 0, 0]);
    assert_eq!(from_cdr::<String>(&[0, 1, 0, 0, 0, 0, 0, 0]).unwrap(), "");
}

#[test]
fn xcdr2_collection_starts_with_size_unless_elements_are_primitive() {
    assert_eq!(body(&vec![1_u16, 2], Encoding::PLAIN_CDR2_LE), [2, 0, 0, 0, 1, 0, 2, 0]);
    assert_eq!(body(&vec![true], Encoding::PLAIN_CDR2_LE), [1, 0, 0, 0, 1]);
    assert_eq!(body(&[1_u16, 2], Encoding::PLAIN_CDR2_LE), [1, 0, 2, 0]);
    let enums = vec![Phase::Taxi, Phase::Landing];
    let elements = [2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0];
    assert_eq!(body(&enums, Encoding::CDR_LE), elements);
    assert_eq!(body(&enums, Encoding::PLAIN_CDR2_LE), [&[12, 0, 0, 0][..], &elements].concat());
    assert_eq!(body(&[Phase::Cruise], Encoding::PLAIN_CDR2_LE), [4, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(body(&Vec::<String>::new(), Encoding::PLAIN_CDR2_LE), [4, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn array_of_arrays_is_encoded_as_one_array() {
    let numbers = [[1_u8, 2], [3, 4]];
    assert_eq!(body(&numbers, Encoding::PLAIN_CDR2_LE), [1, 2, 3, 4]);
    let phases = [[Phase::Taxi], [Phase::Cruise]];
    let bytes = body(&phases, Encoding::PLAIN_CDR2_LE);
    assert_eq!(bytes, [8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0]);
    let mut reader = CdrReader::new(&bytes, Encoding::PLAIN_CDR2_LE);
    assert_eq!(<[[Phase; 1]; 2]>::deserialize(&mut reader).unwrap(), phases);
}

#[test]
fn sequence_of_arrays_starts_with_its_size() {
    let value = vec![[1_u8, 2]];
    assert_eq!(body(&value, Encoding::PLAIN_CDR2_LE), [6, 0, 0, 0, 1, 0, 0, 0, 1, 2]);
}

#[test]
fn empty_sequence_adds_no_element_alignment() {
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr")]
    struct Tail {
        none: Vec<u64>,
        last: u8,
    }
    let value = Tail { none: Vec::new(), last: 9 };
    assert_eq!(body(&value, Encoding::CDR_LE), [0, 0, 0, 0, 9]);
    assert_eq!(from_cdr::<Tail>(&to_cdr_with(&value, Encoding::CDR_LE).unwrap()).unwrap(), value);
}

#[test]
fn key_follows_declaration_order_and_nested_key_replaces_struct() {
    let flight = Flight {
        number: 0x0102,
        remark: "late".into(),
        airline: Airline { code: 0x0304_0506, name: "Squall".into() },
        stand: Stand { row: 7, place: 8 },
    };
    const KEY: [u8; 10] = [1, 2, 0, 0, 3, 4, 5, 6, 7, 8];
    const { assert!(Flight::KEYED && Airline::KEYED && !Stand::KEYED) };
    assert_eq!(key_to_cdr(&flight).unwrap(), KEY);
    let mut buffer = [0; 16];
    assert_eq!(serialize_key_into(&flight, &mut buffer).unwrap(), KEY.len());
    assert_eq!(buffer[..KEY.len()], KEY);
    assert!(key_to_cdr(&flight.stand).unwrap().is_empty());
}

#[test]
fn bounds_are_checked_on_write_and_read() {
    let fits = Bounded {
        name: "abc".into(),
        tags: vec!["abcd".into(), String::new()],
        grid: [vec![vec![1], vec![], vec![3]]],
    };
    assert_eq!(from_cdr::<Bounded>(&to_cdr(&fits).unwrap()).unwrap(), fits);

    let bound_of = |value: &Bounded| match to_cdr(value).unwrap_err().root() {
        CdrError::BoundExceeded { bound, found, .. } => (*bound, *found),
        other => panic!("{other}"),
    };
    assert_eq!(bound_of(&Bounded { name: "abcd".into(), ..fits.clone() }), (3, 4));
    assert_eq!(bound_of(&Bounded { tags: vec![String::new(); 3], ..fits.clone() }), (2, 3));
    assert_eq!(bound_of(&Bounded { tags: vec!["abcde".into()], ..fits.clone() }), (4, 5));
    assert_eq!(bound_of(&Bounded { grid: [vec![vec![1, 2]]], ..fits }), (1, 2));

    let name_too_long = [0, 7, 0, 0, 5, 0, 0, 0, b'a', b'b', b'c', b'd', 0];
    let error = from_cdr::<Bounded>(&name_too_long).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Bounded.name: 4 elements or characters at byte 4 are more than the type's bound of 3; \
         shorten the value or raise the bound in the type"
    );
}

#[test]
fn buffer_of_serialized_size_suffices_and_smaller_buffer_is_rejected() {
    let size = serialized_size(&MIXED).unwrap();
    assert_eq!(serialize_into(&MIXED, &mut vec![0xff; size]).unwrap(), size);
    for smaller in 0..size {
        let error = serialize_into(&MIXED, &mut vec![0xff; smaller]).unwrap_err();
        assert!(matches!(error, CdrError::NoRoom { .. }), "{smaller} bytes: {error}");
    }
}

#[test]
fn padding_is_written_as_zeroes() {
    let mut buffer = [0xff; 24];
    serialize_into(&MIXED, &mut buffer).unwrap();
    assert_eq!(buffer[5..8], [0; 3]);
}

#[test]
fn decoder_reports_each_kind_of_invalid_bytes() {
    let at_string = |payload: &[u8]| from_cdr::<String>(payload).unwrap_err();
    let fault = |fault| CdrError::InvalidString { offset: 8, fault };
    assert_eq!(at_string(&[0, 1, 0, 0, 2, 0, 0, 0, b'a', b'b']), fault(StringFault::NotTerminated));
    assert_eq!(at_string(&[0, 1, 0, 0, 3, 0, 0, 0, 0, b'b', 0]), fault(StringFault::InnerNul));
    assert_eq!(at_string(&[0, 1, 0, 0, 2, 0, 0, 0, 0xff, 0]), fault(StringFault::NotUtf8));
    assert!(to_cdr(&"a\0b".to_owned()).is_err());
    assert_eq!(
        from_cdr::<bool>(&[0, 1, 0, 0, 2]),
        Err(CdrError::InvalidBool { offset: 4, found: 2 })
    );
    assert_eq!(
        from_cdr::<Phase>(&[0, 1, 0, 0, 6, 0, 0, 0]),
        Err(CdrError::UnknownEnumerator { offset: 4, type_name: "Phase", found: 6 })
    );
    assert_eq!(
        from_cdr::<u32>(&[0, 1, 0, 0, 1, 2, 3]),
        Err(CdrError::Truncated {
            offset: 4,
            expected: "an unsigned 32-bit number",
            needed: 4,
            left: 3
        })
    );
    assert_eq!(
        from_cdr::<u8>(&[0, 1, 0, 0, 1, 2, 3, 4, 5]),
        Err(CdrError::TrailingBytes { offset: 5, left: 4 })
    );
    assert_eq!(
        from_cdr::<Vec<u64>>(&[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        Err(CdrError::LengthExceedsData { offset: 4, length: u32::MAX, left: 0 })
    );
    assert!(matches!(from_cdr::<u8>(&[0, 7, 0, 3]), Err(CdrError::Truncated { .. })));
    assert!(matches!(from_cdr::<u8>(&[0, 7]), Err(CdrError::Truncated { .. })));
    assert_eq!(from_cdr::<u8>(&[0, 4, 0, 0, 1]), Err(CdrError::UnknownRepresentation { found: 4 }));
    assert_eq!(
        from_cdr::<u8>(&[0, 9, 0, 0, 1]),
        Err(CdrError::WrongRepresentation { found: 9, expected: 7 })
    );
}

#[test]
fn collection_size_must_match_its_elements() {
    // One element of four bytes, with a size one too large and one too small.
    let too_large = [0, 7, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        from_cdr::<Vec<Phase>>(&too_large),
        Err(CdrError::SizeMismatch { offset: 16, left: 4 })
    );
    let too_small = [0, 7, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(
        from_cdr::<Vec<Phase>>(&too_small),
        Err(CdrError::LengthExceedsData { offset: 8, length: 1, left: 2 })
    );
}

#[test]
fn header_inside_buffer_restarts_alignment() {
    let mut buffer = [0xff; 16];
    let mut writer = CdrWriter::over(&mut buffer, Encoding::CDR_LE);
    writer.write_u8(1).unwrap();
    writer.write_header(Extensibility::Final).unwrap();
    writer.write_u32(2).unwrap();
    writer.write_u8(3).unwrap();
    assert_eq!(writer.finish().unwrap(), 13);
    assert_eq!(buffer[..13], [1, 0, 1, 0, 3, 2, 0, 0, 0, 3, 0, 0, 0]);
}

#[test]
fn type_name_is_declared_name_and_fingerprint_distinguishes_types() {
    assert_eq!(Mixed::TYPE_NAME, "Test::Mixed");
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", name = "Test::Mixed")]
    #[allow(dead_code)]
    struct SameButForAKey {
        #[dds(key)]
        small: u8,
        wide: u64,
        flag: bool,
        half: u16,
        real: f32,
    }
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", name = "Test::Mixed")]
    #[allow(dead_code)]
    struct Same {
        small: u8,
        wide: u64,
        flag: bool,
        half: u16,
        #[dds(name = "real")]
        named_otherwise_in_rust: f32,
    }
    assert_eq!(fingerprint::<Same>(), fingerprint::<Mixed>());
    assert_ne!(fingerprint::<SameButForAKey>(), fingerprint::<Mixed>());
    assert_ne!(fingerprint::<[u8; 2]>(), fingerprint::<[u8; 3]>());
    assert_ne!(fingerprint::<Vec<u8>>(), fingerprint::<Vec<i8>>());
}

#[test]
fn key_hash_is_key_or_its_md5() {
    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr")]
    struct Short {
        #[dds(key)]
        id: u32,
        value: u64,
    }
    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr")]
    struct Long {
        #[dds(key)]
        name: String,
    }
    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr")]
    struct None {
        value: u64,
    }
    let hash = idl_cdr::key_hash(&Short { id: 0x0102_0304, value: 9 }).unwrap();
    assert_eq!(hash, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(idl_cdr::key_hash(&None { value: 7 }).unwrap(), [0; 16]);
    // `printf '\0\0\0\x16a name of an aircraft\0' | md5sum`
    let long = idl_cdr::key_hash(&Long { name: "a name of an aircraft".into() }).unwrap();
    let hex: String = long.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "90533c94c469def1ff19c55c84172138");
}

/// A key of numbers only is its own hash, computed by separate code. The result equals that of the
/// usual code, also as part of a larger key, where members are in the order of their ids. A key of
/// more than sixteen bytes is hashed.
#[test]
fn key_hash_of_numeric_key_equals_result_of_general_code() {
    use idl_cdr::{DdsType, key_hash, serialize_key_into};

    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr")]
    struct Numbers {
        #[dds(key, id = 9)]
        wide: u64,
        value: f32,
        #[dds(key, id = 3)]
        small: i8,
        #[dds(key, id = 5)]
        flag: bool,
        #[dds(key, id = 4)]
        middle: i16,
    }
    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr", extensibility = "appendable")]
    struct Full {
        #[dds(key)]
        first: f64,
        #[dds(key)]
        second: u64,
    }
    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr")]
    struct Over {
        #[dds(key)]
        first: u64,
        #[dds(key)]
        second: u32,
        #[dds(key)]
        third: u8,
        #[dds(key)]
        fourth: i32,
    }
    #[derive(DdsType, Clone, Default)]
    #[dds(crate = "idl_cdr", extensibility = "appendable")]
    struct Derived {
        #[dds(base)]
        base: Full,
        value: u8,
    }
    fn written<T: DdsType>(value: &T) -> [u8; 16] {
        let mut bytes = [0; 16];
        serialize_key_into(value, &mut bytes).unwrap();
        bytes
    }
    for number in (0..64).map(|shift| 0x8123_4567_89ab_cdef_u64.rotate_left(shift)) {
        let (middle, small, flag) = (number as i16, number as i8, number % 2 == 1);
        let numbers = Numbers { wide: number, value: 7.5, small, flag, middle };
        assert!(numbers.short_key().is_some());
        assert_eq!(key_hash(&numbers).unwrap(), written(&numbers));
        assert_eq!(key_hash(&numbers).unwrap()[..1], [number as u8]);
        assert_eq!(key_hash(&numbers).unwrap()[2..4], middle.to_be_bytes());
        let full = Full { first: f64::from_bits(number), second: !number };
        assert!(full.short_key().is_some());
        assert_eq!(key_hash(&full).unwrap(), written(&full));
        let derived = Derived { base: full, value: 1 };
        assert!(derived.short_key().is_none());
        assert_eq!(key_hash(&derived).unwrap(), written(&derived));
    }
    // `printf '\0\0\0\0\0\0\0\x1\0\0\0\x2\x3\0\0\0\0\0\0\x4' | md5sum`
    let over = Over { first: 1, second: 2, third: 3, fourth: 4 };
    assert!(over.short_key().is_none());
    let hex: String = key_hash(&over).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "4128aef90ee2be73ed49c5ca5da2b91b");
}

#[test]
fn padding_that_header_counts_and_writer_left_out_is_no_error() {
    let payload = to_cdr(&"ab".to_owned()).unwrap();
    assert_eq!(payload, [0, 7, 0, 1, 3, 0, 0, 0, b'a', b'b', 0, 0]);
    assert_eq!(from_cdr::<String>(&payload).unwrap(), "ab");
    assert_eq!(from_cdr::<String>(&payload[..11]).unwrap(), "ab");
}

#[test]
fn payload_with_id_of_later_edition_is_read() {
    for (id, encoding) in [(0x10, Encoding::PLAIN_CDR2_BE), (0x11, Encoding::PLAIN_CDR2_LE)] {
        let mut payload = to_cdr_with(&MIXED, encoding).unwrap();
        payload[1] = id;
        assert_eq!(from_cdr::<Mixed>(&payload).unwrap(), MIXED);
    }
}

#[test]
fn wide_string_that_counts_characters_is_explained() {
    let payload = [0, 7, 0, 0, 3, 0, 0, 0, b'a', 0, b'b', 0, b'c', 0, 0, 0];
    let error = from_cdr::<idl_cdr::WString>(&payload).unwrap_err();
    assert!(error.to_string().contains("some writers count characters"), "{error}");
}
