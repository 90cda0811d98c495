//! Types, as participants tell each other of them, and whether a reader understands what a writer writes.
//!
//! Owns: what names a type, the types that others have told, and the verdicts on pairs of them. Never does: believe
//! what was told of a type before it was checked, or judge a pair twice.
//!
//! ```text
//!   name        of the type, with its modules
//!   digest      of its minimal type objects: who knows it knows all that counts for others
//!   layout      how a value lies in memory, if samples travel so
//!   evolves     whether another version may have other members
//! ```
//! A participant tells the objects once for each type, before the first endpoint that names them.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::ids::NodeId;
use idl_cdr::{DdsType, Extensibility, from_cdr, to_cdr};
use idl_xtypes::{ConsistencyKind, DynamicType, ObjectKind, TypeConsistency, TypeObjects};
use qos_profiles::{TypeConsistencyEnforcementQosPolicy, TypeConsistencyKind};

use super::record::is_plain;

/// Types that one participant may tell of. What comes beyond that is not known.
const MOST_TYPES: usize = 4096;
/// The longest description that is told: it goes in one message of the group. A longer type goes together with itself
/// alone.
const LONGEST: usize = 12 << 10;
/// Verdicts that are remembered.
const MOST_VERDICTS: usize = 1 << 14;

/// A hash of a type's description.
pub(crate) type Digest = [u8; 14];

/// A topic's type, as far as it is announced with each endpoint.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) struct TypeIdentity {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    /// How a plain type lies in memory; zero for any other.
    pub(crate) layout: u64,
    pub(crate) evolves: bool,
}

impl TypeIdentity {
    pub(crate) fn of<T: DdsType>() -> TypeIdentity {
        known::<T>().identity.clone()
    }

    /// Whether samples of both may be in one order: they are versions of a type that may change, or of one type.
    pub(crate) fn shares_order(&self, other: &TypeIdentity) -> bool {
        let same = (self.digest, self.layout) == (other.digest, other.layout);
        self.evolves == other.evolves && (self.evolves || same)
    }

    /// What its samples are marked with: none if all of the topic are of this type.
    pub(crate) fn mark(&self) -> u32 {
        let [a, b, c, ..] = self.digest;
        let mark = u32::from_le_bytes([a, b, c & 0x07, 0]);
        if self.evolves { mark.max(1) } else { 0 }
    }
}

/// A type of this program.
struct Known {
    identity: TypeIdentity,
    /// What is told of it; nothing of one that is too large.
    told: Option<Vec<u8>>,
    of: DynamicType,
}

/// The types that this program has used so far.
#[derive(Default)]
struct Catalogue {
    by_type: BTreeMap<TypeId, Arc<Known>>,
    by_digest: BTreeMap<Digest, Arc<Known>>,
}

static CATALOGUE: Mutex<Option<Catalogue>> = Mutex::new(None);

fn catalogue<R>(look: impl FnOnce(&mut Catalogue) -> R) -> R {
    let mut catalogue = CATALOGUE.lock().unwrap_or_else(PoisonError::into_inner);
    look(catalogue.get_or_insert_default())
}

fn known<T: DdsType>() -> Arc<Known> {
    if let Some(known) = catalogue(|all| all.by_type.get(&TypeId::of::<T>()).cloned()) {
        return known;
    }
    let of = DynamicType::of::<T>();
    let told = to_cdr(&of.objects(ObjectKind::Minimal))
        .expect("what is made of a type has no bounds that it could break");
    let identity = TypeIdentity {
        name: T::TYPE_NAME.to_owned(),
        digest: TypeObjects::digest(&told),
        layout: T::LAYOUT.filter(|_| is_plain::<T>()).map_or(0, |layout| layout.hash()),
        evolves: T::EXTENSIBILITY != Extensibility::Final,
    };
    let digest = identity.digest;
    let told = Some(told).filter(|told| told.len() <= LONGEST);
    let known = Arc::new(Known { identity, told, of });
    catalogue(|all| {
        all.by_digest.entry(digest).or_insert_with(|| Arc::clone(&known));
        Arc::clone(all.by_type.entry(TypeId::of::<T>()).or_insert(known))
    })
}

/// What a reader asks of a writer's type: TYPE_CONSISTENCY_ENFORCEMENT.
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

/// Two types, the reader's first, and what the reader asks.
type Pair = (Digest, Digest, Consistency);

/// What others have told of their types, and what became of it.
#[derive(Default)]
pub(crate) struct Types {
    told: BTreeMap<NodeId, BTreeMap<Digest, (Vec<u8>, DynamicType)>>,
    /// What this participant has told, in this life.
    said: RefCell<BTreeSet<Digest>>,
    verdicts: RefCell<BTreeMap<Pair, Result<(), String>>>,
}

impl Types {
    /// What is to be told before an endpoint of this type is announced, if it has not been told yet.
    pub(crate) fn to_tell(&self, of: &TypeIdentity) -> Option<Vec<u8>> {
        let known = catalogue(|all| all.by_digest.get(&of.digest).cloned())?;
        let told = known.told.as_ref()?;
        self.said.borrow_mut().insert(of.digest).then(|| told.clone())
    }

    /// A participant tells of a type.
    pub(crate) fn tell(&mut self, from: NodeId, bytes: Vec<u8>) -> bool {
        let digest = TypeObjects::digest(&bytes);
        let of_node = self.told.entry(from).or_default();
        if of_node.contains_key(&digest) {
            return true;
        }
        if of_node.len() >= MOST_TYPES || bytes.len() > LONGEST {
            tracing::warn!(node = %from, "a participant tells of more types than it may");
            return false;
        }
        let read = from_cdr::<TypeObjects>(&bytes).map_err(|error| error.to_string());
        let read = read.and_then(|objects| {
            DynamicType::from_objects(&objects).map_err(|error| error.to_string())
        });
        match read {
            Ok(of) => {
                of_node.insert(digest, (bytes, of));
                true
            }
            Err(why) => {
                tracing::warn!(node = %from, %why, "what a participant tells of a type makes no sense");
                false
            }
        }
    }

    /// A participant is gone, and with it what it has told.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.told.remove(&node);
    }

    /// All that was told, for one that comes in.
    pub(crate) fn all(&self) -> Vec<(NodeId, Vec<u8>)> {
        let of_node = |(node, types): (&NodeId, &BTreeMap<_, (Vec<u8>, _)>)| {
            types.values().map(|(bytes, _)| (*node, bytes.clone())).collect::<Vec<_>>()
        };
        self.told.iter().flat_map(of_node).collect()
    }

    /// Takes over what others have been told so far.
    pub(crate) fn take_over(&mut self, all: Vec<(NodeId, Vec<u8>)>) {
        self.told = BTreeMap::new();
        for (node, bytes) in all {
            self.tell(node, bytes);
        }
    }

    fn find(&self, digest: &Digest) -> Option<DynamicType> {
        let own = catalogue(|all| all.by_digest.get(digest).map(|known| known.of.clone()));
        own.or_else(|| {
            self.told.values().find_map(|types| types.get(digest)).map(|(_, of)| of.clone())
        })
    }

    /// Whether a reader of the one type understands a writer of the other; if not, why.
    pub(crate) fn check(
        &self,
        reader: (&TypeIdentity, Consistency),
        writer: &TypeIdentity,
    ) -> Result<(), String> {
        let (ours, consistency) = reader;
        if ours.digest == writer.digest {
            return Ok(());
        }
        let pair = (ours.digest, writer.digest, consistency);
        if let Some(verdict) = self.verdicts.borrow().get(&pair) {
            return verdict.clone();
        }
        let (Some(reader), Some(writer)) = (self.find(&ours.digest), self.find(&writer.digest))
        else {
            // It may still be told: that is no verdict.
            return Err(format!(
                "nothing is known of the writer's `{}` but that it is not the reader's: build both \
                 from the same declaration",
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

    fn told(of: &[Vec<u8>]) -> Types {
        let mut types = Types::default();
        of.iter().for_each(|bytes| assert!(types.tell(A, bytes.clone())));
        types
    }

    fn bytes<T: DdsType>() -> Vec<u8> {
        known::<T>().told.clone().unwrap()
    }

    #[test]
    fn versions_that_go_together_do_and_others_are_told_apart_in_words() {
        let types = told(&[bytes::<new::Pose>(), bytes::<other::Pose>()]);
        let [old, new, other] = [
            TypeIdentity::of::<old::Pose>(),
            TypeIdentity::of::<new::Pose>(),
            TypeIdentity::of::<other::Pose>(),
        ];
        let usual = Consistency::default();
        for _ in 0..2 {
            assert_eq!(types.check((&old, usual), &new), Ok(()));
            assert_eq!(types.check((&new, usual), &old), Ok(()));
            let why = types.check((&old, usual), &other).unwrap_err();
            assert!(why.contains("`Pose.x`: it is double, the writer's is uint16"), "{why}");
        }
        assert_eq!(types.verdicts.borrow().len(), 3, "each pair is judged once");
        let strict = TypeConsistencyEnforcementQosPolicy {
            prevent_type_widening: true,
            ..TypeConsistencyEnforcementQosPolicy::default()
        };
        let why = types.check((&old, Consistency::of(&strict)), &new).unwrap_err();
        assert!(why.contains("a member") && why.contains("prevent_type_widening"), "{why}");
        let same = TypeConsistencyEnforcementQosPolicy {
            kind: TypeConsistencyKind::DisallowTypeCoercion,
            ..TypeConsistencyEnforcementQosPolicy::default()
        };
        assert_eq!(types.check((&old, Consistency::of(&same)), &old), Ok(()));
        assert!(types.check((&old, Consistency::of(&same)), &new).is_err());
        assert!(old.mark() != new.mark() && old.mark() != 0);
    }

    #[test]
    fn a_type_is_told_once_and_known_as_long_as_who_told_it() {
        let mut types = Types::default();
        let identity = TypeIdentity::of::<new::Pose>();
        let told = types.to_tell(&identity).unwrap();
        assert_eq!(types.to_tell(&identity), None);
        assert!(types.tell(A, told.clone()) && types.tell(A, told.clone()));
        assert_eq!(types.all(), [(A, told)]);
        let mut newcomer = Types::default();
        newcomer.take_over(types.all());
        assert_eq!(newcomer.all(), types.all());
        types.forget(A);
        assert!(types.all().is_empty());
        let stranger = TypeIdentity { digest: [9; 14], ..identity.clone() };
        let why = types.check((&identity, Consistency::default()), &stranger).unwrap_err();
        assert!(why.contains("nothing is known"), "{why}");
    }

    /// What a peer tells is harmed in all ways; some of it is a type, and nothing of it does any harm.
    #[test]
    fn what_makes_no_sense_is_not_believed() {
        let whole = bytes::<new::Pose>();
        let mut types = Types::default();
        let mut believed = 0;
        for place in 0..whole.len() {
            assert!(!types.tell(A, whole[..place].to_vec()), "cut at {place}");
            for bit in 0..8 {
                let mut harmed = whole.clone();
                harmed[place] ^= 1 << bit;
                // Some bits mean nothing: options of the header, flags that nobody has defined.
                believed += usize::from(types.tell(A, harmed));
            }
        }
        assert!(believed < whole.len(), "{believed} harmed descriptions were believed");
        assert!(!types.tell(A, vec![0; LONGEST + 1]));
        assert!(!types.tell(A, Vec::new()));
        assert!(types.tell(A, whole));
    }
}
