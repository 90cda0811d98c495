//! Type identifiers and type objects: valid ones can be written again with the same hashes and make
//! a usable type; others are refused.

use idl_cdr::{CdrReader, DdsType, Encoding};
use idl_xtypes::standard::*;
use idl_xtypes::{
    DynamicData, DynamicType, ObjectKind, TypeConsistency, TypeObjects, object_bytes,
};

use crate::outcome::{Outcome, OutcomeBuilder};

/// Flag in the first byte: objects get new names that match their hashes, so that damaged objects
/// are checked for their contents and not only refused by their hashes.
const NAMED_ANEW: u8 = 1;

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let [how, bytes @ ..] = bytes else { return outcome.outcome() };
    outcome.kind(how & NAMED_ANEW);
    match read(bytes, how & NAMED_ANEW != 0) {
        Ok((objects, of)) => {
            outcome.kind(true).size(objects.objects.len());
            outcome.said(&format!("{:?}", of.description()));
            usable(&of);
        }
        Err(refused) => {
            outcome.said(&refused);
        }
    }
    outcome.outcome()
}

/// Reads a type from bytes, like one of a peer.
pub(crate) fn read(bytes: &[u8], named_anew: bool) -> Result<(TypeObjects, DynamicType), String> {
    let mut reader = CdrReader::new(bytes, Encoding::PLAIN_CDR2_LE);
    let objects = TypeObjects::deserialize(&mut reader).map_err(|error| error.to_string())?;
    assert!(reader.position() <= bytes.len());
    written_again(&objects);
    let objects = if named_anew { name_anew(objects) } else { objects };
    let of = DynamicType::from_objects(&objects).map_err(|error| error.to_string())?;
    Ok((objects, of))
}

fn written_again(objects: &TypeObjects) {
    let bytes = object_bytes(objects);
    let mut reader = CdrReader::new(&bytes, Encoding::PLAIN_CDR2_LE);
    let again =
        TypeObjects::deserialize(&mut reader).expect("a value that was written can be read");
    assert_eq!(&again, objects);
    assert_eq!(object_bytes(&again), bytes);
    for (one, other) in objects.objects.iter().zip(&again.objects) {
        let hash = |pair: &TypeIdentifierTypeObjectPair| {
            TypeObjects::digest(&object_bytes(&pair.type_object))
        };
        assert_eq!(hash(one), hash(other));
    }
}

/// Checks that an accepted type can be sent, described and compared, and has samples.
fn usable(of: &DynamicType) {
    let lenient = TypeConsistency::default();
    lenient.check(of, of).expect("a type is assignable from itself");
    for kind in [ObjectKind::Complete, ObjectKind::Minimal] {
        let said = of.objects(kind);
        let told = DynamicType::from_objects(&said).expect("announced type objects are accepted");
        let again = told.objects(kind);
        assert_eq!(again.identifier, said.identifier, "{again:?} {said:?}");
        lenient.check(of, &told).expect("a type is assignable from its announced form");
    }
    for inner in of.named_types() {
        drop(format!("{:?}", inner.description()));
    }
    crate::samples::comes_back(&DynamicData::new(of));
}

/// Gives every object a name whose hash is not checked: that of a component of one type.
fn name_anew(mut objects: TypeObjects) -> TypeObjects {
    let new = |place: usize| {
        let [a, b, ..] = place.to_le_bytes();
        let mut hash = [0; 14];
        (hash[0], hash[1]) = (a, b);
        TypeIdentifier::Component(StronglyConnectedComponentId {
            sc_component_id: TypeObjectHashId::Complete(hash),
            scc_length: 1,
            scc_index: 1,
        })
    };
    let old: Vec<_> = objects.objects.iter().map(|pair| pair.type_identifier.clone()).collect();
    let replace = |of: &mut TypeIdentifier| {
        if let Some(place) = old.iter().position(|old| old == of) {
            *of = new(place);
        }
    };
    inner(&mut objects.identifier, &replace);
    for (place, pair) in objects.objects.iter_mut().enumerate() {
        pair.type_identifier = new(place);
        match &mut pair.type_object {
            TypeObject::Complete(of) => in_complete(of, &replace),
            TypeObject::Minimal(of) => in_minimal(of, &replace),
        }
    }
    objects
}

fn inner(of: &mut TypeIdentifier, work: &dyn Fn(&mut TypeIdentifier)) {
    match of {
        TypeIdentifier::SequenceSmall(of) => inner(&mut of.element_identifier, work),
        TypeIdentifier::SequenceLarge(of) => inner(&mut of.element_identifier, work),
        TypeIdentifier::ArraySmall(of) => inner(&mut of.element_identifier, work),
        TypeIdentifier::ArrayLarge(of) => inner(&mut of.element_identifier, work),
        TypeIdentifier::MapSmall(of) => {
            inner(&mut of.element_identifier, work);
            inner(&mut of.key_identifier, work);
        }
        TypeIdentifier::MapLarge(of) => {
            inner(&mut of.element_identifier, work);
            inner(&mut of.key_identifier, work);
        }
        _ => {}
    }
    work(of);
}

fn in_complete(object: &mut CompleteTypeObject, work: &dyn Fn(&mut TypeIdentifier)) {
    match object {
        CompleteTypeObject::Structure(of) => {
            inner(&mut of.header.base_type, work);
            of.member_seq.iter_mut().for_each(|m| inner(&mut m.common.member_type_id, work));
        }
        CompleteTypeObject::Union(of) => {
            inner(&mut of.discriminator.common.type_id, work);
            of.member_seq.iter_mut().for_each(|m| inner(&mut m.common.type_id, work));
        }
        CompleteTypeObject::Alias(of) => inner(&mut of.body.common.related_type, work),
        _ => {}
    }
}

fn in_minimal(object: &mut MinimalTypeObject, work: &dyn Fn(&mut TypeIdentifier)) {
    match object {
        MinimalTypeObject::Structure(of) => {
            inner(&mut of.header.base_type, work);
            of.member_seq.iter_mut().for_each(|m| inner(&mut m.common.member_type_id, work));
        }
        MinimalTypeObject::Union(of) => {
            inner(&mut of.discriminator.common.type_id, work);
            of.member_seq.iter_mut().for_each(|m| inner(&mut m.common.type_id, work));
        }
        MinimalTypeObject::Alias(of) => inner(&mut of.body.common.related_type, work),
        _ => {}
    }
}
