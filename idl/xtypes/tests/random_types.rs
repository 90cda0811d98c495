//! Randomly generated types with random values: round trips in every encoding, and
//! between versions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use idl_cdr::{Encoding, Extensibility};
use idl_xtypes::{
    DynamicData, DynamicType, MemberOptions, ObjectKind, Primitive, StructBuilder, TypeConsistency,
    UnionBuilder, UnionValue, Value,
};
use proptest::collection::vec;
use proptest::prelude::*;

const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];
const UNBOUNDED: u32 = 0;

/// Contents of a type, with its bound.
#[derive(Clone, Debug)]
enum Shape {
    Bool,
    Octet,
    Short,
    Long,
    Wide,
    Double,
    Text(u32),
    Color,
    Sequence(Box<Shape>, u32),
    Array(Box<Shape>, u32),
    Map(Box<Shape>, u32),
    Struct(Extensibility, Vec<MemberShape>),
    Union(Extensibility, Vec<Shape>),
}

/// Properties of a member.
#[derive(Clone, Debug)]
struct MemberShape {
    of: Shape,
    says: MemberOptions,
}

impl MemberShape {
    fn options(&self, id: usize) -> MemberOptions {
        MemberOptions { id: Some(id as u32), ..self.says }
    }
}

fn extensibility() -> impl Strategy<Value = Extensibility> {
    prop_oneof![
        Just(Extensibility::Final),
        Just(Extensibility::Appendable),
        Just(Extensibility::Mutable)
    ]
}

fn bound(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![Just(UNBOUNDED), 1..=most]
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Bool),
        Just(Shape::Octet),
        Just(Shape::Short),
        Just(Shape::Long),
        Just(Shape::Wide),
        Just(Shape::Double),
        bound(9).prop_map(Shape::Text),
        Just(Shape::Color),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), bound(3)).prop_map(|(of, most)| Shape::Sequence(Box::new(of), most)),
            (inner.clone(), 1..4_u32).prop_map(|(of, count)| Shape::Array(Box::new(of), count)),
            (inner.clone(), bound(3)).prop_map(|(of, most)| Shape::Map(Box::new(of), most)),
            (extensibility(), vec(slot(inner.clone()), 1..5))
                .prop_map(|(how, members)| Shape::Struct(how, members)),
            (extensibility(), vec(inner, 1..4)).prop_map(|(how, cases)| Shape::Union(how, cases)),
        ]
    })
}

/// Returns a member: one in three belongs to the key, and one in three is optional.
fn slot(of: impl Strategy<Value = Shape>) -> impl Strategy<Value = MemberShape> {
    (of, 0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(of, kind, external, must_understand)| {
        let (key, optional) = (kind == 0, kind == 1);
        let rest = MemberOptions::default();
        MemberShape { of, says: MemberOptions { key, optional, external, must_understand, ..rest } }
    })
}

/// Returns a member that may be in only one version.
fn may_come_and_go() -> impl Strategy<Value = MemberShape> {
    slot(shape()).prop_map(|slot| {
        let says = MemberOptions { key: false, must_understand: false, ..slot.says };
        MemberShape { says, ..slot }
    })
}

/// Returns the type; `name` distinguishes the types within it.
fn type_of(shape: &Shape, name: &str) -> DynamicType {
    let part = |of: &Shape, n: usize| type_of(of, &format!("{name}_{n}"));
    match shape {
        Shape::Bool => DynamicType::of::<bool>(),
        Shape::Octet => DynamicType::of::<u8>(),
        Shape::Short => DynamicType::of::<i16>(),
        Shape::Long => DynamicType::of::<i32>(),
        Shape::Wide => DynamicType::of::<u64>(),
        Shape::Double => DynamicType::of::<f64>(),
        Shape::Text(bound) => DynamicType::string(*bound),
        Shape::Color => {
            DynamicType::enumeration("Color", [("RED", 0), ("GREEN", 5), ("BLUE", -9)]).unwrap()
        }
        Shape::Sequence(of, bound) => part(of, 0).sequence(*bound),
        Shape::Array(of, count) => part(of, 0).array(*count),
        Shape::Map(of, bound) => {
            DynamicType::primitive(Primitive::Int32).map_to(&part(of, 0), *bound)
        }
        Shape::Struct(how, members) => {
            let with = |to: StructBuilder, (n, slot): (usize, &MemberShape)| {
                to.member(&format!("m{n}"), &part(&slot.of, n), slot.options(n))
            };
            let all = members.iter().enumerate();
            all.fold(StructBuilder::new(name, *how), with).build().unwrap()
        }
        Shape::Union(how, cases) => {
            let to = UnionBuilder::new(name, *how, &DynamicType::of::<i32>());
            let with = |to: UnionBuilder, (n, of): (usize, &Shape)| {
                to.case(&[n as i64], &format!("c{n}"), &part(of, n))
            };
            cases.iter().enumerate().fold(to, with).build().unwrap()
        }
    }
}

/// Numbers to make values from; zeroes after the last one.
struct NumberSource<'a>(std::slice::Iter<'a, u32>);

impl NumberSource<'_> {
    fn next(&mut self) -> u32 {
        self.0.next().copied().unwrap_or_default()
    }

    /// Returns a number of elements: at most three.
    fn count(number: u32, bound: u32) -> u32 {
        let most = if bound == UNBOUNDED { 3 } else { bound.min(3) };
        number % (most + 1)
    }

    fn value(&mut self, shape: &Shape) -> Value {
        let number = self.next();
        match shape {
            Shape::Bool => Value::Bool(number % 2 == 1),
            Shape::Octet => Value::Unsigned(u64::from(number as u8)),
            Shape::Short => Value::Signed(i64::from(number as i16)),
            Shape::Long => Value::Signed(i64::from(number as i32)),
            Shape::Wide => Value::Unsigned(u64::from(number) << 32 | u64::from(self.next())),
            Shape::Double => Value::Double(f64::from(number as i32) / 8.0),
            Shape::Text(bound) => {
                let mut text: String = "änderung".chars().take((number % 9) as usize).collect();
                while *bound != UNBOUNDED && text.len() > *bound as usize {
                    text.pop();
                }
                Value::Text(text)
            }
            Shape::Color => {
                let (name, value) = [("RED", 0), ("GREEN", 5), ("BLUE", -9)][(number % 3) as usize];
                Value::Enumerator { value, name: name.into() }
            }
            Shape::Sequence(of, bound) => {
                let count = Self::count(number, *bound);
                Value::Collection((0..count).map(|_| self.value(of)).collect())
            }
            Shape::Array(of, count) => {
                Value::Collection((0..*count).map(|_| self.value(of)).collect())
            }
            Shape::Map(of, bound) => Value::Map(
                (0..i64::from(Self::count(number, *bound)))
                    .map(|n| (Value::Signed(n - 1), self.value(of)))
                    .collect(),
            ),
            Shape::Struct(_, members) => Value::Structure(self.members(members)),
            Shape::Union(_, cases) => {
                let case = number as usize % cases.len();
                Value::Union(Box::new(UnionValue {
                    discriminator: Value::Signed(case as i64),
                    case,
                    member: self.value(&cases[case]),
                }))
            }
        }
    }

    fn members<'s>(&mut self, members: impl IntoIterator<Item = &'s MemberShape>) -> Vec<Value> {
        let one = |slot: &MemberShape| match slot.says.optional && self.next().is_multiple_of(2) {
            true => Value::Absent,
            false => self.value(&slot.of),
        };
        members.into_iter().map(one).collect()
    }
}

/// Returns a struct of the members that `ids` names, in that order.
fn version(name: &str, how: Extensibility, members: &[MemberShape], ids: &[usize]) -> DynamicType {
    let with = |to: StructBuilder, &id: &usize| {
        let part = type_of(&members[id].of, &format!("Part_{id}"));
        to.member(&format!("m{id}"), &part, members[id].options(id))
    };
    ids.iter().fold(StructBuilder::new(name, how), with).build().unwrap()
}

/// Returns a sample with these values of the members that `ids` names.
fn sample(of: &DynamicType, ids: &[usize], values: &[Value]) -> DynamicData {
    let mut data = DynamicData::new(of);
    for (id, value) in ids.iter().zip(values) {
        data.set(&format!("m{id}"), value.clone()).unwrap();
    }
    data
}

/// Returns the type as received by a peer.
fn decoded(of: &DynamicType) -> DynamicType {
    DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap()
}

/// Puts a version between unchanged members, which are read wrongly if its length is misjudged.
/// Rows of it are included only if the encoding marks the end of each element.
fn around(how: Extensibility, inner: &DynamicType, rows: bool) -> DynamicType {
    let none = MemberOptions::default;
    let mut of = StructBuilder::new("Around", how)
        .member("before", &DynamicType::of::<u8>(), none())
        .member("one", inner, none())
        .member("after", &DynamicType::of::<u64>(), none());
    if rows {
        of = of.member("row", &inner.sequence(UNBOUNDED), none()).member(
            "last",
            &DynamicType::of::<u16>(),
            none(),
        );
    }
    of.build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn values_of_random_types_survive_round_trip(
        how in extensibility(),
        members in vec(slot(shape()), 1..4),
        numbers in vec(any::<u32>(), 96),
    ) {
        let all: Vec<usize> = (0..members.len()).collect();
        let of = version("Root", how, &members, &all);
        let data = sample(&of, &all, &NumberSource(numbers.iter()).members(&members));
        let (key, hash) = (data.key_to_cdr().unwrap(), data.key_hash().unwrap());
        let text = of.to_idl().unwrap();
        let idl = idl::parse("printed.idl", &text).unwrap();
        let printed = DynamicType::from_idl(&idl, "Root").unwrap();
        let complete = |of: &DynamicType| of.objects(ObjectKind::Complete);
        prop_assert_eq!(complete(&printed), complete(&of), "{}", text);
        prop_assert!(of.is_keyed() || key.is_empty());
        for encoding in ENCODINGS {
            let payload = data.to_cdr(encoding).unwrap();
            prop_assert_eq!(data.cdr_size(encoding).unwrap(), payload.len());
            let of_key = data.key_to_cdr_with(encoding).unwrap();
            // A payload of the key alone is one of a type with the members of the key alone.
            let of_key_type = DynamicData::from_key(&of.key_type(), &of_key).unwrap();
            prop_assert_eq!(of_key_type.key_to_cdr().unwrap(), key.clone(), "{:?}", encoding);
            let only_key = data.only_key().unwrap();
            prop_assert_eq!(only_key.whole(), of_key_type.whole());
            for reader in [&of, &decoded(&of)] {
                let read = DynamicData::from_cdr(reader, &payload).unwrap();
                prop_assert_eq!(read.whole(), data.whole(), "{:?}", encoding);
                prop_assert_eq!(read.to_cdr(encoding).unwrap(), payload.clone());
                prop_assert_eq!(read.key_hash().unwrap(), hash);
                let alone = DynamicData::from_key(reader, &of_key).unwrap();
                prop_assert_eq!(alone.key_to_cdr().unwrap(), key.clone(), "{:?}", encoding);
                prop_assert_eq!(alone.key_hash().unwrap(), hash, "{:?}", encoding);
            }
            for end in 4..payload.len() {
                // A truncated payload is an error, or lacks only the padding.
                drop(DynamicData::from_cdr(&of, &payload[..end]));
            }
        }
        for text in [data.to_text(), data.to_json()] {
            let read = DynamicData::parse(&of, &text).unwrap();
            prop_assert_eq!(read.whole(), data.whole(), "{}", text);
        }
    }

    /// A list longer than its bound can be neither set nor read, at any depth.
    #[test]
    fn sequence_bound_is_checked_at_every_position(
        how in extensibility(),
        members in vec(slot(shape()), 1..4),
        bound in 1..4_u32,
        place in any::<prop::sample::Index>(),
        numbers in vec(any::<u32>(), 96),
    ) {
        let place = place.index(members.len() + 1);
        let with = |bound| {
            let of = Shape::Sequence(Box::new(Shape::Text(9)), bound);
            let mut members = members.clone();
            members.insert(place, MemberShape { of, says: MemberOptions::default() });
            members
        };
        let all: Vec<usize> = (0..=members.len()).collect();
        let bounded = version("Root", how, &with(bound), &all);
        let (loose, slots) = (version("Root", how, &with(UNBOUNDED), &all), with(UNBOUNDED));
        let mut data = sample(&loose, &all, &NumberSource(numbers.iter()).members(&slots));
        for count in [bound, bound + 1] {
            let list = Value::Collection(vec![Value::Text("t".to_owned()); count as usize]);
            let (path, fits) = (format!("m{place}"), count <= bound);
            data.set(&path, list.clone()).unwrap();
            prop_assert_eq!(DynamicData::new(&bounded).set(&path, list).is_ok(), fits);
            for encoding in ENCODINGS {
                let payload = data.to_cdr(encoding).unwrap();
                prop_assert_eq!(DynamicData::from_cdr(&bounded, &payload).is_ok(), fits);
            }
        }
    }

    /// A reader of another version receives the members that both know, and defaults for those that
    /// the writer lacks.
    #[test]
    fn reader_of_other_version_gets_common_members_and_defaults(
        first in slot(shape()),
        more in vec(may_come_and_go(), 1..5),
        mutable in any::<bool>(),
        whose in vec(0..3_u8, 6),
        numbers in vec(any::<u32>(), 200),
    ) {
        let members = [vec![first], more].concat();
        // Both versions have the first member, which may be the key. Appendable types differ only
        // at the end, and one version has more members.
        let both = if mutable { 1 } else { 1 + usize::from(whose[0]) % members.len() };
        let of = |side: u8| -> Vec<usize> {
            (0..members.len())
                .filter(|&id| id < both || if mutable { whose[id] != side } else { whose[0] % 2 != side })
                .collect()
        };
        let (written, mut wanted) = (of(0), of(1));
        if mutable {
            wanted.reverse();
        }
        let how = if mutable { Extensibility::Mutable } else { Extensibility::Appendable };
        let inner = |ids: &[usize]| version("Version", how, &members, ids);
        let (writer, reader) = (inner(&written), decoded(&inner(&wanted)));
        let default = DynamicData::new(&inner(&wanted));
        let compare = |read: &DynamicData, data: &DynamicData, place: &str, encoding: Encoding| {
            for id in &wanted {
                let path = format!("{place}m{id}");
                let found = read.get_value(&path).unwrap();
                let wanted = match written.contains(id) {
                    true => data.get_value(&path).unwrap(),
                    false => default.get_value(&format!("m{id}")).unwrap(),
                };
                prop_assert_eq!(found, wanted, "{} {:?}", path, encoding);
            }
            Ok(())
        };
        let mut source = NumberSource(numbers.iter());
        let mut one = || source.members(written.iter().map(|id| &members[*id]));

        // The version as the type of the topic.
        let values = one();
        let data = sample(&writer, &written, &values);
        TypeConsistency::default().check(&reader, &writer).unwrap();
        for encoding in ENCODINGS {
            let read = DynamicData::from_cdr(&reader, &data.to_cdr(encoding).unwrap()).unwrap();
            compare(&read, &data, "", encoding)?;
            prop_assert_eq!(read.key_hash().unwrap(), data.key_hash().unwrap(), "{:?}", encoding);
            let key = data.key_to_cdr_with(encoding).unwrap();
            let alone = DynamicData::from_key(&reader, &key).unwrap();
            prop_assert_eq!(alone.key_hash().unwrap(), data.key_hash().unwrap(), "{:?}", encoding);
        }

        // The version within other types. In XCDR1 only a surrounding parameter marks the end of an
        // appendable struct.
        for outer in [Extensibility::Final, Extensibility::Appendable, Extensibility::Mutable] {
            for encoding in ENCODINGS {
                let rows = mutable || !ENCODINGS[..2].contains(&encoding);
                if !rows && outer != Extensibility::Mutable {
                    continue;
                }
                let (writer, reader) = (around(outer, &writer, rows), around(outer, &reader, rows));
                TypeConsistency::default().check(&reader, &writer).unwrap();
                let mut data = DynamicData::new(&writer);
                data.set("before", Value::Unsigned(77)).unwrap();
                data.set("one", Value::Structure(values.clone())).unwrap();
                data.set("after", Value::Unsigned(u64::MAX - 5)).unwrap();
                let (mut fixed, mut places) = (vec!["before", "after"], vec!["one."]);
                if rows {
                    let row = [one(), values.clone()].map(Value::Structure).to_vec();
                    data.set("row", Value::Collection(row)).unwrap();
                    data.set("last", Value::Unsigned(999)).unwrap();
                    fixed.push("last");
                    places.extend(["row[0].", "row[1]."]);
                }
                let read = DynamicData::from_cdr(&reader, &data.to_cdr(encoding).unwrap()).unwrap();
                for path in fixed {
                    prop_assert_eq!(read.get_value(path).unwrap(), data.get_value(path).unwrap());
                }
                for place in places {
                    compare(&read, &data, place, encoding)?;
                }
            }
        }
    }
}
