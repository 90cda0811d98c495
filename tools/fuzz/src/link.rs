//! Packets of the link's rendezvous: refused, or read, written and read again as the same.

use dds_transport_rdma::shm::wire::{
    Greeting, Message, decode, decode_greeting, encode, encode_greeting,
};

use crate::outcome::{Outcome, OutcomeBuilder};

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    let message = match decode(bytes) {
        Ok(message) => message,
        Err(nonsense) => {
            let first = bytes.first().copied();
            return outcome.kind((first, false)).said(&nonsense.to_string()).outcome();
        }
    };
    outcome.kind(core::mem::discriminant(&message)).size(bytes.len());
    let written = encode(&message);
    assert_eq!(decode(&written).as_ref(), Ok(&message), "a packet is read as it was written");
    match message {
        Message::Hello { versions, rest } => {
            outcome.size(versions.len());
            match decode_greeting(rest) {
                Ok(greeting) => greeted(&greeting, &mut outcome),
                Err(nonsense) => {
                    outcome.said(&nonsense.to_string());
                }
            }
        }
        Message::Refuse { versions, reason, text } => {
            outcome.size(versions.len()).kind(format!("{reason:?}")).size(text.len());
        }
        Message::Region { offset, words, .. } => {
            outcome.size(offset as usize).size(words as usize);
        }
        _ => {}
    }
    outcome.outcome()
}

fn greeted(greeting: &Greeting<'_>, outcome: &mut OutcomeBuilder) {
    let written = encode_greeting(greeting);
    assert_eq!(decode_greeting(&written).as_ref(), Ok(greeting), "a greeting is read as written");
    outcome.size(greeting.domain.len()).kind("greeted");
}
