//! Payloads: derived types and run-time types read them alike, and write the values they read.

use idl_cdr::Encoding;
use idl_xtypes::DynamicData;

use crate::kinds::{ENCODINGS, FuzzedType, selected};
use crate::outcome::{Outcome, OutcomeBuilder};

/// Flag in the second byte: a payload with its own header follows.
const WITH_HEADER: u8 = 0x80;
/// Flag in the second byte: the payload has only a key.
const OF_KEY: u8 = 0x40;

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let [of, how, body @ ..] = bytes else { return outcome.outcome() };
    let kind = selected(*of);
    let encoding = ENCODINGS[usize::from(how & 3)];
    let payload = if how & WITH_HEADER == 0 {
        let [high, low] = encoding.representation_id(kind.extensibility).to_be_bytes();
        [&[high, low, 0, (how >> 2) & 3][..], body].concat()
    } else {
        body.to_vec()
    };
    outcome.kind(*of).kind(how & (WITH_HEADER | OF_KEY | 3));
    match how & OF_KEY {
        0 => whole(kind, &payload, encoding, &mut outcome),
        _ => key(kind, &payload, &mut outcome),
    }
    outcome.outcome()
}

fn whole(kind: &FuzzedType, payload: &[u8], encoding: Encoding, outcome: &mut OutcomeBuilder) {
    let typed = (kind.rewrite)(payload, encoding);
    let data = DynamicData::from_cdr(&kind.of, payload);
    // A type described by type objects has less information: a fixed is its bytes, and members have
    // no declared defaults.
    drop(DynamicData::from_cdr(&kind.told, payload).map(|data| data.to_text()));
    match (typed, data) {
        (Ok(typed), Ok(data)) => {
            outcome.kind(true).size(typed.len());
            // A run-time union stores the label that it was read with, even if its case has another
            // one first.
            let written = data.to_cdr(encoding).expect("a value that was read can be written");
            assert_eq!(written.len(), typed.len(), "{}", data.to_text());
            let again =
                (kind.rewrite)(&written, encoding).expect("a value that was written can be read");
            assert_eq!(again, typed, "{}", data.to_text());
            crate::samples::comes_back(&data);
        }
        (Err(typed), Err(data)) => {
            outcome.said(&typed.to_string()).said(&data.to_string());
        }
        (typed, data) => {
            panic!("only one of the two reads it: {typed:?}, {:?}", data.map(|data| data.to_text()))
        }
    }
}

fn key(kind: &FuzzedType, payload: &[u8], outcome: &mut OutcomeBuilder) {
    let data = DynamicData::from_key(&kind.of, payload);
    match ((kind.key)(payload), data) {
        (Ok(typed), Ok(data)) => {
            outcome.kind(true).size(typed.len());
            assert_eq!(data.key_to_cdr().expect("a value that was read can be written"), typed);
        }
        (Err(typed), Err(data)) => {
            outcome.said(&typed.to_string()).said(&data.to_string());
        }
        (typed, data) => {
            panic!(
                "only one of the two reads the key: {typed:?}, {:?}",
                data.map(|data| data.to_text())
            )
        }
    }
}
