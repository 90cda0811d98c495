//! Assignability of two types from peers. The target checks that more tolerant switches never
//! refuse a type that stricter ones accept.

use idl_cdr::Encoding;
use idl_xtypes::{ConsistencyKind, DynamicData, TypeConsistency};

use crate::objects::read;
use crate::outcome::{Outcome, OutcomeBuilder};

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let [how, low, high, bytes @ ..] = bytes else { return outcome.outcome() };
    let split = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
    let (reader, writer) = bytes.split_at(split);
    let both = (read(reader, how & 1 != 0), read(writer, how & 2 != 0));
    let ((_, reader), (_, writer)) = match both {
        (Ok(reader), Ok(writer)) => (reader, writer),
        (reader, writer) => {
            for refused in [reader.err(), writer.err()] {
                outcome.said(refused.as_deref().unwrap_or_default());
            }
            return outcome.outcome();
        }
    };
    let understood: Vec<bool> =
        (0..32).map(|switches| consistency(switches).check(&reader, &writer).is_ok()).collect();
    outcome.kind(&understood);
    for strict in 0..32_usize {
        for lenient in (0..32).filter(|lenient| lenient & strict == strict) {
            assert!(
                !understood[strict] || understood[lenient],
                "{:?} takes it and {:?} does not",
                consistency(strict),
                consistency(lenient)
            );
        }
    }
    let default = TypeConsistency::default().check(&reader, &writer);
    outcome.said(&default.map_or_else(|mismatch| mismatch.reason, |()| String::new()));
    // Whatever the result, reading bytes of one type as the other gives an error or a sample.
    for encoding in [Encoding::PLAIN_CDR2_LE, Encoding::CDR_BE] {
        let sample = DynamicData::new(&writer).to_cdr(encoding).expect("a default can be written");
        if let Ok(read) = DynamicData::from_cdr(&reader, &sample) {
            crate::samples::comes_back(&read);
        }
    }
    outcome.outcome()
}

/// Makes a consistency from bits; each bit makes it more lenient.
fn consistency(switches: usize) -> TypeConsistency {
    let is = |bit: usize| switches >> bit & 1 == 1;
    let kind = match is(4) {
        true => ConsistencyKind::AllowTypeCoercion,
        false => ConsistencyKind::DisallowTypeCoercion,
    };
    TypeConsistency {
        kind,
        ignore_sequence_bounds: is(0),
        ignore_string_bounds: is(1),
        ignore_member_names: is(2),
        prevent_type_widening: !is(3),
        force_type_validation: false,
    }
}
