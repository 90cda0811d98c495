//! Members are found by their paths, with their kinds, without a copy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod types;

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeMap;

use idl_cdr::{DdsType, Fixed, LongDouble, MemberPath, ValueRef};
use types::*;

fn look<T: DdsType>(value: &T, path: &str) -> String {
    format!("{:?}", MemberPath::of::<T>(path).unwrap().find(value))
}

fn wrong<T: DdsType>(path: &str) -> String {
    MemberPath::of::<T>(path).unwrap_err().to_string()
}

fn derived() -> Derived {
    let mut value = Derived::default_value();
    value.base.number = 9;
    value.base.name = "abc".to_owned();
    value.base.doubles = vec![1.5, -2.0];
    value.base.inner.y = 4.0;
    value.base.choice = Either::Right(Gear { position: 3, locked: true, load: -5 });
    value.more = Color::Red;
    value.last = Flags(0x801);
    value
}

#[test]
fn member_path_finds_members_of_all_kinds() {
    let value = derived();
    assert_eq!(look(&value, "number"), "Unsigned(9)", "of the base");
    assert_eq!(look(&value, "name"), "Text(\"abc\")");
    assert_eq!(look(&value, "maybe"), "Absent");
    assert_eq!(look(&value, "doubles[1]"), "Double(-2.0)");
    assert_eq!(look(&value, "doubles[2]"), "Absent");
    assert_eq!(look(&value, "inner.y"), "Double(4.0)");
    assert_eq!(look(&value, "choice.discriminator"), "Bool(false)");
    assert_eq!(look(&value, "choice.Right.load"), "Signed(-5)");
    assert_eq!(look(&value, "choice.Left"), "Absent", "another case is selected");
    assert_eq!(look(&value, "more"), "Enumerator(Red = -3)");
    assert_eq!(look(&value, "last"), "Bitmask(0x801)");
    assert_eq!(look(&value, "inner"), "[Signed(0), Double(4.0)]");
}

#[test]
fn member_path_follows_collections_maps_and_trees() {
    let mut value = Collections::default_value();
    value.names = BTreeMap::from([("a".to_owned(), vec![7, 8]), ("b".to_owned(), vec![])]);
    value.squares = BTreeMap::from([(-3, 9.0)]);
    value.gears[1][0].locked = true;
    assert_eq!(look(&value, "names[\"a\"][1]"), "Unsigned(8)");
    assert_eq!(look(&value, "names[b]"), "[]");
    assert_eq!(look(&value, "names['c'][1]"), "Absent");
    assert_eq!(look(&value, "squares[-3]"), "Double(9.0)");
    assert_eq!(look(&value, "squares"), "{Signed(-3): Double(9.0)}");
    assert_eq!(look(&value, "gears[1][0].locked"), "Bool(true)");
    let leaf = Tree { value: 2, children: Vec::new(), next: None };
    let tree = Tree { value: 1, children: vec![leaf.clone()], next: Some(Box::new(leaf)) };
    assert_eq!(look(&tree, "next.value"), "Signed(2)");
    assert_eq!(look(&tree, "children[0].next.next.value"), "Absent");
    let mut numbers = Numbers::default_value();
    numbers.h = Fixed::from_units(-1250).unwrap();
    assert_eq!(look(&numbers, "h"), "Fixed(-1250e-2)");
    assert_eq!(look(&numbers, "i[1][2]"), "Signed(0)");
}

#[test]
fn member_path_error_states_position_and_reason() {
    assert_eq!(
        wrong::<Derived>("inner.z"),
        "`inner.z`, at 6: `Point` has no member `z`; it has x, y"
    );
    assert_eq!(
        wrong::<Derived>("choice.Middle"),
        "`choice.Middle`, at 7: `Either` has no member `Middle`; it has Left, Right"
    );
    assert_eq!(wrong::<Numbers>("i[2]"), "`i[2]`, at 1: the array has 2 elements, found index 2");
    assert_eq!(wrong::<Numbers>("a.b"), "`a.b`, at 2: a uint8 has no member `b`");
    assert_eq!(wrong::<Numbers>("a[0]"), "`a[0]`, at 1: a uint8 has no elements");
    assert_eq!(wrong::<Derived>("inner."), "`inner.`, at 6: expected the name of a member");
    assert_eq!(wrong::<Derived>("texts[1"), "`texts[1`, at 5: `]` is missing");
    assert_eq!(wrong::<Derived>("texts[1]x"), "`texts[1]x`, at 8: expected `.` or `[`");
    assert_eq!(
        wrong::<Derived>("texts[-1]"),
        "`texts[-1]`, at 5: indexes of elements start at 0, found -1"
    );
}

#[test]
fn values_of_different_types_are_compared_exactly() {
    let price = 1250;
    let fixed = ValueRef::Fixed { units: &price, scale: 2 };
    let long = LongDouble::from(0.5);
    for (one, other, order) in [
        (ValueRef::Signed(-1), ValueRef::Unsigned(u64::MAX), Less),
        (ValueRef::Unsigned(u64::MAX), ValueRef::Double(18446744073709551616.0), Less),
        (ValueRef::Signed((1 << 53) + 1), ValueRef::Double(9007199254740992.0), Greater),
        (ValueRef::Signed(2), ValueRef::Double(2.5), Less),
        (ValueRef::Signed(-2), ValueRef::Double(-2.5), Greater),
        (ValueRef::Signed(0), ValueRef::Double(-0.0), Equal),
        (ValueRef::Float(0.5), ValueRef::LongDouble(&long), Equal),
        (fixed, ValueRef::Double(12.5), Equal),
        (fixed, ValueRef::Signed(13), Less),
        (fixed, ValueRef::Unsigned(12), Greater),
        (ValueRef::Text("b"), ValueRef::Char('a'), Greater),
        (ValueRef::Enumerator { value: 3, name: "RED" }, ValueRef::Text("RED"), Equal),
        (ValueRef::Enumerator { value: 3, name: "RED" }, ValueRef::Signed(4), Less),
        (ValueRef::Bool(true), ValueRef::Bool(false), Greater),
    ] {
        assert_eq!(one.compare(other), Some(order), "{one:?} {other:?}");
        assert_eq!(other.compare(one), Some(order.reverse()), "{other:?} {one:?}");
    }
    for (one, other) in [
        (ValueRef::Signed(1), ValueRef::Double(f64::NAN)),
        (ValueRef::Absent, ValueRef::Absent),
        (ValueRef::Text("1"), ValueRef::Signed(1)),
        (ValueRef::Bool(true), ValueRef::Signed(1)),
    ] {
        assert_eq!(one.compare(other), None, "{one:?} {other:?}");
    }
}
