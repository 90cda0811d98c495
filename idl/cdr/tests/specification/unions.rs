//! Rules (26) to (28): unions.

use idl_cdr::{DdsType, WChar};

use super::parameters::emheader1;
use super::values::Byte;
use super::{V1, V1_BIG, V2, V2_BIG, bare, spelled};

macro_rules! unions {
    ($($name:ident $extensibility:literal)*) => {$(
        #[derive(DdsType, Clone, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", union, discriminator = "i32", extensibility = $extensibility)]
        pub(crate) enum $name {
            #[dds(case = 1)]
            One(u8),
            #[dds(case = 2)]
            Two(u16),
            #[dds(default)]
            Rest { discriminator: i32 },
        }
    )*};
}
unions! { FinalUnion "final" AppendableUnion "appendable" MutableUnion "mutable" }

/// Rule (26): the discriminator and the selected member, if any. Rules (27) and (28): both as
/// members, the discriminator with the id 0. By 7.4.3.5.1 a discriminator must be understood.
#[test]
fn unions_follow_rules_26_to_28() {
    for (encoding, head) in [(V1_BIG, [0, 0, 0]), (V2_BIG, [0, 6, 0])] {
        let two = [0, 0, 0, 2, 0x22, 0x22, 0, 0];
        spelled(&FinalUnion::Two(0x2222), encoding, &[&head, &[2], &two]);
        let rest = FinalUnion::Rest { discriminator: 9 };
        spelled(&rest, encoding, &[&head, &[0], &[0, 0, 0, 9]]);
    }
    let value = MutableUnion::Two(0x2222);
    let payload: [&[u8]; 6] = [
        &[0, 0x0b, 0, 2],
        &[14, 0, 0, 0],
        &emheader1(true, 2, 0),
        &[2, 0, 0, 0],
        &emheader1(false, 1, 2),
        &[0x22, 0x22, 0, 0],
    ];
    spelled(&value, V2, &payload);
    let payload: [&[u8]; 6] = [
        &[0, 2, 0, 0],
        &[0x40, 0x00, 0, 4],
        &[0, 0, 0, 2],
        &[0x00, 0x02, 0, 2],
        &[0x22, 0x22, 0, 0],
        &[0x7f, 0x02, 0, 0],
    ];
    spelled(&value, V1_BIG, &payload);
}

/// Rules (27) and (28) where nothing is selected: only the discriminator.
#[test]
fn unions_without_selected_member_follow_rules_27_and_28() {
    let rest = MutableUnion::Rest { discriminator: 9 };
    let payload: [&[u8]; 4] =
        [&[0, 0x0b, 0, 0], &[8, 0, 0, 0], &emheader1(true, 2, 0), &[9, 0, 0, 0]];
    spelled(&rest, V2, &payload);
    let payload: [&[u8]; 4] =
        [&[0, 2, 0, 0], &[0x40, 0x00, 0, 4], &[0, 0, 0, 9], &[0x7f, 0x02, 0, 0]];
    spelled(&rest, V1_BIG, &payload);
    let rest = AppendableUnion::Rest { discriminator: 9 };
    spelled(&rest, V2, &[&[0, 9, 0, 0], &[4, 0, 0, 0], &[9, 0, 0, 0]]);
}

macro_rules! by {
    ($($name:ident $discriminator:literal $label:expr;)*) => {$(
        #[derive(DdsType, Clone, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", union, discriminator = $discriminator)]
        enum $name {
            #[dds(case = $label)]
            Some(u16),
        }
    )*};
}
by! {
    ByBool "bool" true;
    ByByte "u8" 2;
    ByInt8 "i8" -2;
    ByInt16 "i16" -2;
    ByUint16 "u16" 2;
    ByUint32 "u32" 2;
    ByInt64 "i64" -2;
    ByUint64 "u64" 2;
    ByChar "char" 'a';
    ByWide "WChar" 'a';
    ByEnum "Byte" Byte::Seven;
}

/// Rule (26) with (2) and (5): a discriminator is a value of its type, and the next value is
/// aligned to its own size.
#[test]
fn discriminators_follow_rule_26() {
    let value = 0x0304;
    for encoding in [V1_BIG, V2_BIG] {
        bare(&ByBool::Some(value), encoding, &[1, 0, 3, 4]);
        bare(&ByByte::Some(value), encoding, &[2, 0, 3, 4]);
        bare(&ByInt8::Some(value), encoding, &[0xfe, 0, 3, 4]);
        bare(&ByInt16::Some(value), encoding, &[0xff, 0xfe, 3, 4]);
        bare(&ByUint16::Some(value), encoding, &[0, 2, 3, 4]);
        bare(&ByUint32::Some(value), encoding, &[0, 0, 0, 2, 3, 4]);
        let int64 = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 3, 4];
        bare(&ByInt64::Some(value), encoding, &int64);
        bare(&ByUint64::Some(value), encoding, &[0, 0, 0, 0, 0, 0, 0, 2, 3, 4]);
        bare(&ByChar::Some(value), encoding, &[b'a', 0, 3, 4]);
        bare(&ByWide::Some(value), encoding, &[0, b'a', 3, 4]);
        bare(&ByEnum::Some(value), encoding, &[7, 0, 3, 4]);
    }
}

/// Rules (12) and (13): elements that are unions are not primitive.
#[test]
fn sequences_of_unions_follow_rules_12_and_13() {
    let list = vec![FinalUnion::One(7), FinalUnion::Rest { discriminator: 9 }];
    let bytes = [2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0];
    bare(&list, V1, &bytes);
    bare(&list, V2, &[&[16, 0, 0, 0][..], &bytes].concat());
}
