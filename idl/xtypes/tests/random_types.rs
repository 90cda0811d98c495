//! Types that nobody wrote down, with values of theirs: there and back in every encoding, and between versions.

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

/// What a type is made of.
#[derive(Clone, Debug)]
enum Shape {
    Bool,
    Octet,
    Short,
    Long,
    Wide,
    Double,
    Text,
    Color,
    Sequence(Box<Shape>),
    Array(Box<Shape>, u32),
    Map(Box<Shape>),
    Struct(Extensibility, Vec<(Shape, bool)>),
    Union(Extensibility, Vec<Shape>),
}

fn extensibility() -> impl Strategy<Value = Extensibility> {
    prop_oneof![
        Just(Extensibility::Final),
        Just(Extensibility::Appendable),
        Just(Extensibility::Mutable)
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Bool),
        Just(Shape::Octet),
        Just(Shape::Short),
        Just(Shape::Long),
        Just(Shape::Wide),
        Just(Shape::Double),
        Just(Shape::Text),
        Just(Shape::Color),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| Shape::Sequence(Box::new(of))),
            (inner.clone(), 1..4_u32).prop_map(|(of, count)| Shape::Array(Box::new(of), count)),
            inner.clone().prop_map(|of| Shape::Map(Box::new(of))),
            (extensibility(), vec((inner.clone(), any::<bool>()), 1..5))
                .prop_map(|(how, members)| Shape::Struct(how, members)),
            (extensibility(), vec(inner, 1..4)).prop_map(|(how, cases)| Shape::Union(how, cases)),
        ]
    })
}

fn optional(optional: bool, id: u32) -> MemberOptions {
    MemberOptions { optional, id: Some(id), ..MemberOptions::default() }
}

/// The type; `name` tells those that it is made of apart.
fn type_of(shape: &Shape, name: &str) -> DynamicType {
    let part = |of: &Shape, n: usize| type_of(of, &format!("{name}_{n}"));
    match shape {
        Shape::Bool => DynamicType::of::<bool>(),
        Shape::Octet => DynamicType::of::<u8>(),
        Shape::Short => DynamicType::of::<i16>(),
        Shape::Long => DynamicType::of::<i32>(),
        Shape::Wide => DynamicType::of::<u64>(),
        Shape::Double => DynamicType::of::<f64>(),
        Shape::Text => DynamicType::string(UNBOUNDED),
        Shape::Color => {
            DynamicType::enumeration("Color", &[("RED", 0), ("GREEN", 5), ("BLUE", -9)]).unwrap()
        }
        Shape::Sequence(of) => part(of, 0).sequence(UNBOUNDED),
        Shape::Array(of, count) => part(of, 0).array(*count),
        Shape::Map(of) => DynamicType::primitive(Primitive::Int32).map_to(&part(of, 0), UNBOUNDED),
        Shape::Struct(how, members) => {
            let with = |to: StructBuilder, (n, (of, may_lack)): (usize, &(Shape, bool))| {
                to.member(&format!("m{n}"), &part(of, n), optional(*may_lack, n as u32))
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

/// Numbers to make values of; when they are used up, zeroes.
struct Source<'a>(std::slice::Iter<'a, u32>);

impl Source<'_> {
    fn next(&mut self) -> u32 {
        self.0.next().copied().unwrap_or_default()
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
            Shape::Text => Value::Text("änderung".chars().take((number % 9) as usize).collect()),
            Shape::Color => {
                let (name, value) = [("RED", 0), ("GREEN", 5), ("BLUE", -9)][(number % 3) as usize];
                Value::Enumerator { value, name: name.into() }
            }
            Shape::Sequence(of) => {
                Value::Collection((0..number % 4).map(|_| self.value(of)).collect())
            }
            Shape::Array(of, count) => {
                Value::Collection((0..*count).map(|_| self.value(of)).collect())
            }
            Shape::Map(of) => Value::Map(
                (0..i64::from(number % 4))
                    .map(|n| (Value::Signed(n - 1), self.value(of)))
                    .collect(),
            ),
            Shape::Struct(_, members) => Value::Structure(
                members.iter().map(|(of, may_lack)| self.member(of, *may_lack)).collect(),
            ),
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

    fn member(&mut self, of: &Shape, may_lack: bool) -> Value {
        if may_lack && self.next().is_multiple_of(2) { Value::Absent } else { self.value(of) }
    }
}

/// A struct of those of the members that `ids` names, in that order.
fn version(
    name: &str,
    how: Extensibility,
    members: &[(Shape, bool)],
    ids: &[usize],
) -> DynamicType {
    let with = |to: StructBuilder, &id: &usize| {
        let (of, may_lack) = &members[id];
        let part = type_of(of, &format!("Part_{id}"));
        to.member(&format!("m{id}"), &part, optional(*may_lack, id as u32))
    };
    ids.iter().fold(StructBuilder::new(name, how), with).build().unwrap()
}

/// The same type as a peer has it that was told of it.
fn told(of: &DynamicType) -> DynamicType {
    DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap()
}

/// A version between members that stay, and several of it in a row: who loses count reads those wrongly.
fn around(inner: &DynamicType) -> DynamicType {
    let none = MemberOptions::default;
    StructBuilder::new("Around", Extensibility::Final)
        .member("before", &DynamicType::of::<u8>(), none())
        .member("one", inner, none())
        .member("row", &inner.sequence(UNBOUNDED), none())
        .member("after", &DynamicType::of::<u64>(), none())
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn values_of_any_type_come_back(shape in shape(), numbers in vec(any::<u32>(), 64)) {
        let members = [(shape, false)];
        let of = version("Root", Extensibility::Final, &members, &[0]);
        let mut data = DynamicData::new(&of);
        data.set("m0", Source(numbers.iter()).value(&members[0].0)).unwrap();
        for encoding in ENCODINGS {
            let payload = data.to_cdr(encoding).unwrap();
            prop_assert_eq!(data.cdr_size(encoding).unwrap(), payload.len());
            for reader in [&of, &told(&of)] {
                let read = DynamicData::from_cdr(reader, &payload).unwrap();
                prop_assert_eq!(read.whole(), data.whole(), "{:?}", encoding);
                prop_assert_eq!(read.to_cdr(encoding).unwrap(), payload.clone());
            }
            for end in 4..payload.len() {
                // A part of it is an error, or what only lacks the padding.
                drop(DynamicData::from_cdr(&of, &payload[..end]));
            }
        }
        for text in [data.to_text(), data.to_json()] {
            let read = DynamicData::parse(&of, &text).unwrap();
            prop_assert_eq!(read.whole(), data.whole(), "{}", text);
        }
    }

    /// A reader of another version has of each member what was written, and the default of those that the writer
    /// lacks.
    #[test]
    fn readers_of_another_version_have_what_both_know(
        members in vec((shape(), any::<bool>()), 2..6),
        mutable in any::<bool>(),
        whose in vec(0..3_u8, 6),
        numbers in vec(any::<u32>(), 200),
    ) {
        // The first member is in both. An appendable type differs at its end only, and one side has more.
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
        let (writer, reader) = (around(&inner(&written)), around(&told(&inner(&wanted))));
        TypeConsistency::default().check(&reader, &writer).unwrap();

        let mut source = Source(numbers.iter());
        let mut one = || {
            Value::Structure(
                written.iter().map(|id| source.member(&members[*id].0, members[*id].1)).collect(),
            )
        };
        let mut data = DynamicData::new(&writer);
        data.set("before", Value::Unsigned(77)).unwrap();
        data.set("one", one()).unwrap();
        data.set("row", Value::Collection(vec![one(), one()])).unwrap();
        data.set("after", Value::Unsigned(u64::MAX - 5)).unwrap();
        let default = DynamicData::new(&inner(&wanted));
        for encoding in ENCODINGS {
            // Nothing tells in XCDR1 where an appendable struct ends.
            if !mutable && ENCODINGS[..2].contains(&encoding) {
                continue;
            }
            let read = DynamicData::from_cdr(&reader, &data.to_cdr(encoding).unwrap()).unwrap();
            for fixed in ["before", "after"] {
                prop_assert_eq!(read.get_value(fixed).unwrap(), data.get_value(fixed).unwrap());
            }
            for place in ["one", "row[0]", "row[1]"] {
                for id in &wanted {
                    let path = format!("{place}.m{id}");
                    let found = read.get_value(&path).unwrap();
                    if written.contains(id) {
                        prop_assert_eq!(found, data.get_value(&path).unwrap(), "{} {:?}", path, encoding);
                    } else {
                        let wanted = default.get_value(&format!("m{id}")).unwrap();
                        prop_assert_eq!(found, wanted, "{} {:?}", path, encoding);
                    }
                }
            }
        }
    }
}
