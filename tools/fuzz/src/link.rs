//! Packets of the link's rendezvous: refused, or read, written and read again as the same.

use dds_transport_rdma::shm::wire::{
    Greeting, Message, decode, decode_greeting, encode, encode_greeting,
};

use crate::outcome::{Outcome, OutcomeBuilder};

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut gathered = OutcomeBuilder::default();
    let message = match decode(bytes) {
        Ok(message) => message,
        Err(nonsense) => {
            let first = bytes.first().copied();
            return gathered.kind((first, false)).said(&nonsense.to_string()).outcome();
        }
    };
    gathered.kind(core::mem::discriminant(&message)).size(bytes.len());
    let written = encode(&message);
    assert_eq!(decode(&written).as_ref(), Ok(&message), "a packet is read as it was written");
    match message {
        Message::Hello { versions, rest } => {
            gathered.size(versions.len());
            match decode_greeting(rest) {
                Ok(greeting) => greeted(&greeting, &mut gathered),
                Err(nonsense) => {
                    gathered.said(&nonsense.to_string());
                }
            }
        }
        Message::Refuse { versions, reason, text } => {
            gathered.size(versions.len()).kind(format!("{reason:?}")).size(text.len());
        }
        Message::Region { offset, words, .. } => {
            gathered.size(offset as usize).size(words as usize);
        }
        _ => {}
    }
    gathered.outcome()
}

fn greeted(greeting: &Greeting<'_>, gathered: &mut OutcomeBuilder) {
    let written = encode_greeting(greeting);
    assert_eq!(decode_greeting(&written).as_ref(), Ok(greeting), "a greeting is read as written");
    gathered.size(greeting.domain.len()).kind("greeted");
}
