//! Announced types, and the decision whether a reader understands a writer's type.
//!
//! Owns: the names of types, the types announced by others, and the verdicts on pairs of types.
//! Never does: trust the description of a type before it is checked, or check a pair twice.
//!
//! ```text
//!   name        of the type, with its modules
//!   digest      of its minimal type objects, which contain everything that matters to others
//!   layout      memory layout of a value, if samples are plain
//!   evolves     whether another version may have other members
//! ```
//! A participant announces the type objects, and the offsets of the parts of a value, once for each
//! type, before the first endpoint that uses the type (I-174). The objects include names, so that
//! tools can show samples, unless the description is too long with them.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::ids::NodeId;
use idl_cdr::{DdsType, Extensibility, from_cdr, to_cdr};
use idl_xtypes::{
    ConsistencyKind, DynamicType, ObjectKind, TopicData, TypeConsistency, TypeObjects,
};
use qos_profiles::{TypeConsistencyEnforcementQosPolicy, TypeConsistencyKind};

use super::kept_replay::GONE_SENDER;
use super::layouts::MemoryLayout;
use super::record::{is_plain, layout_mark};
use super::type_parts::{LONGEST, PartialDescriptions, TypePart};

/// Maximum number of types that one participant may announce. Further ones are ignored.
const MOST_TYPES: usize = 4096;
/// Maximum number of remembered types of departed participants. The first ones are kept.
const MOST_GONE: usize = 256;
/// Maximum length of all type descriptions of one participant in bytes. Further ones are ignored.
const MOST_BYTES: usize = 8 << 20;
/// Maximum length of remembered type descriptions of departed participants in bytes.
const MOST_BYTES_GONE: usize = 2 << 20;
/// Maximum number of remembered verdicts.
const MOST_VERDICTS: usize = 1 << 14;

/// Hash of a type's description.
pub(crate) type Digest = [u8; 14];

/// The part of a topic's type that is announced with each endpoint.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) struct TypeIdentity {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    /// Hash of a plain type's memory layout; zero for any other type.
    pub(crate) layout: u64,
    pub(crate) evolves: bool,
}

impl TypeIdentity {
    pub(crate) fn of<T: TopicData>(support: &T::TypeSupport) -> TypeIdentity {
        known::<T>(support).identity.clone()
    }

    /// The type itself.
    pub(crate) fn type_of<T: TopicData>(support: &T::TypeSupport) -> DynamicType {
        known::<T>(support).of.clone()
    }

    /// Whether samples of both types may share an order: both are versions of a type that may
    /// change, or they are the same type.
    pub(crate) fn shares_order(&self, other: &TypeIdentity) -> bool {
        self.evolves == other.evolves && (self.evolves || self.digest == other.digest)
    }

    /// Mark of the type's samples: the version of a type that may change, otherwise the memory
    /// layout if samples are plain.
    pub(crate) fn mark(&self) -> u32 {
        let [a, b, c, ..] = self.digest;
        let mark = u32::from_le_bytes([a, b, c & 0x07, 0]);
        if self.evolves { mark.max(1) } else { layout_mark(self.layout) }
    }
}

/// Description of a type, in the form in which it is announced.
#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct TypeDescription {
    objects: TypeObjects,
    /// Hash of the memory layout of a value; zero for a type that is not plain.
    layout: u64,
    /// Offsets of the parts of a plain value.
    places: Vec<u32>,
}

/// A type of this program, or one that another participant has announced.
struct KnownType {
    identity: TypeIdentity,
    /// The encoded description; `None` for a type whose description is too long.
    encoded: Option<Vec<u8>>,
    of: DynamicType,
    offsets: Arc<[u32]>,
}

impl KnownType {
    /// A type of this program, with the layout of its values; without offsets if the type is
    /// not plain.
    fn own(of: DynamicType, layout: u64, offsets: Vec<u32>) -> KnownType {
        let encode = |kind| {
            let (objects, offsets) = (of.objects(kind), offsets.clone());
            encoded(&TypeDescription { objects, layout, places: offsets })
        };
        let mut forms = [ObjectKind::Complete, ObjectKind::Minimal].into_iter().map(encode);
        let told = forms.find(|told| told.len() <= LONGEST);
        if told.is_none() {
            let name = of.name();
            tracing::warn!(name, "type too long to be announced: it is assignable to itself only");
        }
        KnownType::new(of, layout, offsets, told)
    }

    /// Length of the description.
    fn length(&self) -> usize {
        self.encoded.as_ref().map_or(0, Vec::len)
    }

    fn new(of: DynamicType, layout: u64, offsets: Vec<u32>, told: Option<Vec<u8>>) -> KnownType {
        let digest = TypeObjects::digest(&encoded(&of.objects(ObjectKind::Minimal)));
        let evolves = of.extensibility() != Extensibility::Final;
        let identity = TypeIdentity { name: of.name().to_owned(), digest, layout, evolves };
        KnownType { identity, encoded: told, of, offsets: offsets.into() }
    }

    /// Reads an announced description.
    fn read(encoded: &[u8]) -> Result<KnownType, String> {
        let read = from_cdr::<TypeDescription>(encoded).map_err(|error| error.to_string())?;
        let TypeDescription { objects, layout, places } = read;
        if (layout == 0) != places.is_empty() {
            return Err(
                "the memory layout and the offsets of members contradict each other".to_owned()
            );
        }
        let of = DynamicType::from_objects(&objects).map_err(|error| error.to_string())?;
        Ok(KnownType::new(of, layout, places, Some(encoded.to_vec())))
    }

    fn name(&self) -> TypeKey {
        (self.identity.digest, self.identity.layout)
    }

    /// Memory layout of the type's values, if they are plain.
    fn layout(&self) -> Option<MemoryLayout> {
        let KnownType { identity, of, offsets, .. } = self;
        let layout =
            || MemoryLayout { hash: identity.layout, of: of.clone(), offsets: Arc::clone(offsets) };
        (identity.layout != 0).then(layout)
    }
}

fn encoded(of: &impl DdsType) -> Vec<u8> {
    to_cdr(of).expect("type objects have no bounded members")
}

/// Key of a type. The same type may have several memory layouts.
type TypeKey = (Digest, u64);

/// Types that this program has used so far.
#[derive(Default)]
struct OwnTypes {
    by_type: BTreeMap<TypeId, Arc<KnownType>>,
    by_name: BTreeMap<TypeKey, Arc<KnownType>>,
}

static CATALOGUE: Mutex<Option<OwnTypes>> = Mutex::new(None);

fn catalogue<R>(access: impl FnOnce(&mut OwnTypes) -> R) -> R {
    let mut catalogue = CATALOGUE.lock().unwrap_or_else(PoisonError::into_inner);
    access(catalogue.get_or_insert_default())
}

fn known<T: TopicData>(support: &T::TypeSupport) -> Arc<KnownType> {
    let compiled = T::compiled();
    let find = |all: &mut OwnTypes| all.by_type.get(&compiled?).cloned();
    if let Some(known) = catalogue(find) {
        return known;
    }
    let (layout, offsets) = match T::LAYOUT.filter(|_| is_plain::<T>()) {
        Some(layout) => (layout.hash(), T::places()),
        None => (0, Vec::new()),
    };
    let known = Arc::new(KnownType::own(T::dynamic_type(support), layout, offsets));
    catalogue(|all| {
        let first = all.by_name.entry(known.name()).or_insert_with(|| Arc::clone(&known));
        // Types of equal structure may differ in their names, which identify topics' types.
        let known = match first.identity.name == known.identity.name {
            true => Arc::clone(first),
            false => known,
        };
        if let Some(compiled) = compiled {
            all.by_type.insert(compiled, Arc::clone(&known));
        }
        known
    })
}

/// Reads the encoded description of a type: the type, its memory layout if samples are plain, and
/// its identity.
pub(crate) fn read_description(
    encoded: &[u8],
) -> Result<(DynamicType, Option<MemoryLayout>, TypeIdentity), String> {
    let known = KnownType::read(encoded)?;
    Ok((known.of.clone(), known.layout(), known.identity))
}

/// Requirements of a reader for a writer's type: TYPE_CONSISTENCY_ENFORCEMENT.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Consistency {
    coercion: bool,
    sequence_bounds: bool,
    string_bounds: bool,
    member_names: bool,
    widening: bool,
    validation: bool,
}

impl Default for Consistency {
    fn default() -> Self {
        Consistency::of(&TypeConsistencyEnforcementQosPolicy::default())
    }
}

impl Consistency {
    pub(crate) fn of(policy: &TypeConsistencyEnforcementQosPolicy) -> Consistency {
        Consistency {
            coercion: policy.kind == TypeConsistencyKind::AllowTypeCoercion,
            sequence_bounds: policy.ignore_sequence_bounds,
            string_bounds: policy.ignore_string_bounds,
            member_names: policy.ignore_member_names,
            widening: !policy.prevent_type_widening,
            validation: policy.force_type_validation,
        }
    }

    fn rules(self) -> TypeConsistency {
        TypeConsistency {
            kind: match self.coercion {
                true => ConsistencyKind::AllowTypeCoercion,
                false => ConsistencyKind::DisallowTypeCoercion,
            },
            ignore_sequence_bounds: self.sequence_bounds,
            ignore_string_bounds: self.string_bounds,
            ignore_member_names: self.member_names,
            prevent_type_widening: !self.widening,
            force_type_validation: self.validation,
        }
    }
}

/// All announced descriptions, and the incomplete ones.
pub(crate) type AnnouncedDescriptions = (Vec<(NodeId, Vec<u8>)>, Vec<(NodeId, TypePart)>);

/// The reader's type, the writer's type, and the reader's requirements.
type TypePair = (Digest, Digest, Consistency);

/// Types announced by participants, and the verdicts on them.
#[derive(Default)]
pub(crate) struct AnnouncedTypes {
    announced: BTreeMap<NodeId, BTreeMap<TypeKey, Arc<KnownType>>>,
    partial: PartialDescriptions,
    /// Types that this participant has announced in this life.
    announced_here: RefCell<BTreeSet<TypeKey>>,
    verdicts: RefCell<BTreeMap<TypePair, Result<(), String>>>,
}

impl AnnouncedTypes {
    /// The parts to announce before an endpoint of this type; none if the type was
    /// announced already.
    pub(crate) fn parts_to_announce(&self, of: &TypeIdentity) -> Vec<TypePart> {
        let name = (of.digest, of.layout);
        let known = catalogue(|all| all.by_name.get(&name).cloned());
        let encoded = known.as_ref().and_then(|known| known.encoded.as_ref());
        let encoded = encoded.filter(|_| self.announced_here.borrow_mut().insert(name));
        encoded.map_or_else(Vec::new, |told| TypePart::all(told))
    }

    /// Adds a part of a type's description.
    pub(crate) fn add_part(&mut self, from: NodeId, part: TypePart) {
        if let Some(description) = self.partial.add_part(from, part) {
            self.tell(from, &description);
        }
    }

    /// Adds a type's description. Returns whether it was accepted.
    fn tell(&mut self, from: NodeId, bytes: &[u8]) -> bool {
        let of_node = self.announced.entry(from).or_default();
        let length: usize = of_node.values().map(|known| known.length()).sum();
        if of_node.len() >= MOST_TYPES || length + bytes.len() > MOST_BYTES {
            tracing::warn!(node = %from, "type ignored: its participant announces too many");
            return false;
        }
        match KnownType::read(bytes) {
            Ok(known) => {
                of_node.entry(known.name()).or_insert_with(|| Arc::new(known));
                true
            }
            Err(why) => {
                tracing::warn!(node = %from, %why, "malformed description of a type ignored");
                false
            }
        }
    }

    /// Moves the types of a departed participant to the remembered ones, because its samples may
    /// be kept.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.partial.forget(node);
        let types = self.announced.remove(&node).unwrap_or_default();
        let gone = self.announced.entry(GONE_SENDER.node).or_default();
        let mut length: usize = gone.values().map(|known| known.length()).sum();
        for (name, known) in types {
            let fits = gone.len() < MOST_GONE && length + known.length() <= MOST_BYTES_GONE;
            if fits && let Entry::Vacant(entry) = gone.entry(name) {
                length += known.length();
                entry.insert(known);
            }
        }
    }

    /// All descriptions, complete and incomplete, for a state transfer to a new member.
    pub(crate) fn snapshot(&self) -> AnnouncedDescriptions {
        let of_node = |(node, types): (&NodeId, &BTreeMap<_, Arc<KnownType>>)| {
            let encoded = types.values().filter_map(|known| Some((*node, known.encoded.clone()?)));
            encoded.collect::<Vec<_>>()
        };
        (self.announced.iter().flat_map(of_node).collect(), self.partial.all())
    }

    /// Takes over the descriptions known to another member.
    pub(crate) fn restore(&mut self, (told, begun): AnnouncedDescriptions) {
        self.announced = BTreeMap::new();
        for (node, bytes) in told {
            self.tell(node, &bytes);
        }
        self.partial.take_over(begun);
    }

    /// Encoded description of a type, if it is known and short enough to be announced.
    pub(crate) fn encoded(&self, of: &TypeIdentity) -> Option<Vec<u8>> {
        let name = (of.digest, of.layout);
        let own = catalogue(|all| all.by_name.get(&name).cloned());
        let find = || self.announced.values().find_map(|types| types.get(&name).cloned());
        own.or_else(find)?.encoded.clone()
    }

    /// Finds a type, with names if its description contains them.
    pub(crate) fn find(&self, of: &Digest) -> Option<DynamicType> {
        let all = (*of, 0)..=(*of, u64::MAX);
        let own =
            catalogue(|known| known.by_name.range(all.clone()).next().map(|(_, it)| it.of.clone()));
        let announced = || {
            self.announced
                .values()
                .find_map(|types| Some(types.range(all.clone()).next()?.1.of.clone()))
        };
        own.or_else(announced)
    }

    /// All announced memory layouts of this type.
    pub(crate) fn layouts(&self, of: &Digest) -> Vec<MemoryLayout> {
        let all = (*of, 1)..=(*of, u64::MAX);
        let told = self.announced.values().flat_map(|types| types.range(all.clone()));
        told.filter_map(|(_, known)| known.layout()).collect()
    }

    /// Memory layout of a plain type, if it is known.
    pub(crate) fn layout(&self, of: &TypeIdentity) -> Option<MemoryLayout> {
        let name = (of.digest, of.layout);
        let own = catalogue(|all| all.by_name.get(&name)?.layout());
        own.or_else(|| self.announced.values().find_map(|types| types.get(&name)?.layout()))
    }

    /// Checks whether a reader of our type understands a writer of the other one. The error says
    /// why not.
    pub(crate) fn check(
        &self,
        ours: &TypeIdentity,
        consistency: Consistency,
        writer: &TypeIdentity,
    ) -> Result<(), String> {
        if ours.digest == writer.digest {
            return Ok(());
        }
        let pair = (ours.digest, writer.digest, consistency);
        if let Some(verdict) = self.verdicts.borrow().get(&pair) {
            return verdict.clone();
        }
        let (Some(reader), Some(writer)) = (self.find(&ours.digest), self.find(&writer.digest))
        else {
            // The writer's type may still be announced, so this is not remembered as a verdict.
            return Err(format!(
                "the writer's type `{}` differs from the reader's and has not been announced: \
                 build both from the same declaration (types with more than 256 KiB of type \
                 objects are not announced)",
                writer.name
            ));
        };
        let verdict =
            consistency.rules().check(&reader, &writer).map_err(|mismatch| mismatch.to_string());
        let mut verdicts = self.verdicts.borrow_mut();
        if verdicts.len() >= MOST_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert(pair, verdict.clone());
        verdict
    }
}

#[cfg(test)]
mod tests {
    use idl_xtypes::{MemberOptions, StructBuilder, TypeShape};

    use super::*;

    mod old {
        #[derive(idl_cdr::DdsType)]
        #[dds(crate = "idl_cdr", extensibility = "appendable", name = "Pose")]
        pub(super) struct Pose {
            pub(super) x: f64,
        }
    }

    mod new {
        #[derive(idl_cdr::DdsType)]
        #[dds(crate = "idl_cdr", extensibility = "appendable", name = "Pose")]
        pub(super) struct Pose {
            pub(super) x: f64,
            pub(super) y: Vec<String>,
        }
    }

    mod other {
        #[derive(idl_cdr::DdsType)]
        #[dds(crate = "idl_cdr", extensibility = "appendable", name = "Pose")]
        pub(super) struct Pose {
            pub(super) x: u16,
        }
    }

    const A: NodeId = NodeId(1);

    fn told(of: &[Vec<u8>]) -> AnnouncedTypes {
        let mut types = AnnouncedTypes::default();
        of.iter().for_each(|bytes| assert!(types.tell(A, bytes)));
        types
    }

    fn bytes<T: DdsType>() -> Vec<u8> {
        known::<T>(&()).encoded.clone().unwrap()
    }

    #[test]
    fn compatible_versions_are_accepted_and_others_rejected_with_reason() {
        let types = told(&[bytes::<new::Pose>(), bytes::<other::Pose>()]);
        let [old, new, other] = [
            TypeIdentity::of::<old::Pose>(&()),
            TypeIdentity::of::<new::Pose>(&()),
            TypeIdentity::of::<other::Pose>(&()),
        ];
        let default = Consistency::default();
        for _ in 0..2 {
            assert_eq!(types.check(&old, default, &new), Ok(()));
            assert_eq!(types.check(&new, default, &old), Ok(()));
            let why = types.check(&old, default, &other).unwrap_err();
            assert!(
                why.contains("`Pose.x`: double in the reader's type, uint16 in the writer's"),
                "{why}"
            );
        }
        assert_eq!(types.verdicts.borrow().len(), 3, "each pair is judged once");
        let strict = TypeConsistencyEnforcementQosPolicy {
            prevent_type_widening: true,
            ..TypeConsistencyEnforcementQosPolicy::default()
        };
        let why = types.check(&old, Consistency::of(&strict), &new).unwrap_err();
        assert!(why.contains("a member") && why.contains("prevent_type_widening"), "{why}");
        let same = TypeConsistencyEnforcementQosPolicy {
            kind: TypeConsistencyKind::DisallowTypeCoercion,
            ..TypeConsistencyEnforcementQosPolicy::default()
        };
        assert_eq!(types.check(&old, Consistency::of(&same), &old), Ok(()));
        assert!(types.check(&old, Consistency::of(&same), &new).is_err());
        assert!(old.mark() != new.mark() && old.mark() != 0);
    }

    #[test]
    fn type_is_announced_once_and_outlives_its_announcer() {
        let mut types = AnnouncedTypes::default();
        let identity = TypeIdentity::of::<new::Pose>(&());
        let bytes = bytes::<new::Pose>();
        let [part] = &types.parts_to_announce(&identity)[..] else {
            panic!("description is one part")
        };
        assert_eq!(types.parts_to_announce(&identity), []);
        (0..2).for_each(|_| types.add_part(A, part.clone()));
        assert_eq!(types.snapshot(), (vec![(A, bytes)], vec![]));
        let mut newcomer = AnnouncedTypes::default();
        newcomer.restore(types.snapshot());
        assert_eq!(newcomer.snapshot(), types.snapshot());
        types.forget(A);
        assert_eq!(types.snapshot().0.len(), 1, "samples of a departed participant may be kept");
        assert!(types.find(&identity.digest).is_some());
        let stranger = TypeIdentity { digest: [9; 14], ..identity.clone() };
        let why = types.check(&identity, Consistency::default(), &stranger).unwrap_err();
        assert!(why.contains("has not been announced"), "{why}");
    }

    /// A type with this number of members.
    fn long(name: &str, members: u32) -> KnownType {
        let number = DynamicType::of::<f64>();
        let mut of = StructBuilder::new(name, Extensibility::Appendable);
        for n in 0..members {
            of = of.member(&format!("channel_{n}"), &number, MemberOptions::default());
        }
        KnownType::own(of.build().unwrap(), 0, Vec::new())
    }

    fn has_names(of: &DynamicType) -> bool {
        let TypeShape::Structure { members, .. } = of.description().unwrap().shape else {
            panic!()
        };
        members[0].name == "channel_0"
    }

    /// I-175: known after the last part. I-176: with names if there is room for them.
    #[test]
    fn long_type_is_announced_in_parts() {
        for (members, names) in [(2000, true), (10_000, false)] {
            let known = long("Long", members);
            let parts = TypePart::all(known.encoded.as_ref().unwrap());
            assert!(parts.len() > 2, "description has more than two parts");
            let mut types = AnnouncedTypes::default();
            for part in parts {
                assert!(types.find(&known.identity.digest).is_none());
                let mut newcomer = AnnouncedTypes::default();
                newcomer.restore(types.snapshot());
                assert_eq!(newcomer.snapshot(), types.snapshot());
                types = newcomer;
                types.add_part(A, part);
            }
            let found = types.find(&known.identity.digest).unwrap();
            assert_eq!(has_names(&found), names, "{members} members");
        }
        assert!(long("Long", 20_000).encoded.is_none());
        // Nothing is pending for a departed participant.
        let known = long("Long", 2000);
        let parts = TypePart::all(known.encoded.as_ref().unwrap());
        let mut types = AnnouncedTypes::default();
        types.add_part(A, parts[0].clone());
        types.forget(A);
        parts[1..].iter().for_each(|part| types.add_part(A, part.clone()));
        assert_eq!(types.snapshot(), (vec![], vec![]));
    }

    /// I-176: the descriptions of one participant are limited, and so are the remembered ones of
    /// departed participants.
    #[test]
    fn total_size_of_announced_types_is_limited() {
        let mut types = AnnouncedTypes::default();
        let count_bytes = |types: &AnnouncedTypes| -> usize {
            types.snapshot().0.iter().map(|(_, bytes)| bytes.len()).sum()
        };
        let mut refused = 0;
        for n in 0..45 {
            let known = long("Long", 6500 + n);
            refused += usize::from(!types.tell(A, known.encoded.as_ref().unwrap()));
        }
        let all = count_bytes(&types);
        assert!(refused > 0 && all <= MOST_BYTES && all > MOST_BYTES - LONGEST, "{all} bytes");
        let mut other = AnnouncedTypes::default();
        other.restore(types.snapshot());
        assert_eq!(other.snapshot(), types.snapshot());
        types.forget(A);
        let gone = count_bytes(&types);
        assert!(gone <= MOST_BYTES_GONE && gone > MOST_BYTES_GONE - LONGEST, "{gone} bytes");
    }

    /// Descriptions damaged in every bit. Some of them still describe a type, and none causes a
    /// failure.
    #[test]
    fn truncated_type_description_is_rejected_and_bit_flips_are_harmless() {
        let description = bytes::<new::Pose>();
        let mut types = AnnouncedTypes::default();
        let mut believed = 0;
        for place in 0..description.len() {
            assert!(!types.tell(A, &description[..place]), "cut at {place}");
            for bit in 0..8 {
                let mut harmed = description.clone();
                harmed[place] ^= 1 << bit;
                // Some bits have no meaning: options of the header, undefined flags.
                believed += usize::from(types.tell(A, &harmed));
            }
        }
        assert!(believed < description.len(), "{believed} damaged descriptions were accepted");
        assert!(!types.tell(A, &[]));
        assert!(types.tell(A, &description));
    }
}
