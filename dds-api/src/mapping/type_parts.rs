//! Division of a type's description into messages that the group's control stream can carry.
//!
//! Owns: the division into parts, and the incomplete descriptions. Never does: interpret
//! a description.
//!
//! ```text
//!   whole   length of the description      a part at 0 begins a description; others continue it
//!   at      offset of this part            equals the end of the part before
//!   bytes   content of this part           the last part ends at `length`
//! ```

use std::collections::BTreeMap;

use derecho_core::bytes::{ByteReader, Wire};
use derecho_core::ids::NodeId;

/// Maximum length of a part, which is sent in one message of the group.
const LONGEST_PART: usize = 12 << 10;
/// Maximum length of a type's description (I-176).
pub(crate) const LONGEST: usize = 256 << 10;

/// A part of a type's description, or all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TypePart {
    whole: u32,
    at: u32,
    bytes: Vec<u8>,
}

impl TypePart {
    /// Divides a description into parts.
    pub(crate) fn all(description: &[u8]) -> Vec<TypePart> {
        let part = |(n, bytes): (usize, &[u8])| TypePart {
            whole: description.len() as u32,
            at: (n * LONGEST_PART) as u32,
            bytes: bytes.to_vec(),
        };
        description.chunks(LONGEST_PART).enumerate().map(part).collect()
    }
}

impl Wire for TypePart {
    fn encode(&self, out: &mut Vec<u8>) {
        self.whole.encode(out);
        self.at.encode(out);
        self.bytes.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(TypePart {
            whole: Wire::decode(from)?,
            at: Wire::decode(from)?,
            bytes: Wire::decode(from)?,
        })
    }
}

/// Incomplete descriptions: at most one type for each participant (I-175).
#[derive(Default)]
pub(crate) struct PartialDescriptions(BTreeMap<NodeId, TypePart>);

impl PartialDescriptions {
    /// Adds a part. Returns the description if this was the last part. A part that does not
    /// continue the one before is dropped together with the incomplete description.
    pub(crate) fn add_part(&mut self, from: NodeId, part: TypePart) -> Option<Vec<u8>> {
        let partial = self.0.remove(&from).filter(|_| part.at > 0);
        let partial = partial.unwrap_or(TypePart { whole: part.whole, at: 0, bytes: Vec::new() });
        let mut bytes = partial.bytes;
        let goes_on = part.whole == partial.whole && part.at as usize == bytes.len();
        let length = part.whole as usize;
        let has_room = length <= LONGEST && part.bytes.len() <= length.saturating_sub(bytes.len());
        if !goes_on || !has_room || part.bytes.is_empty() {
            tracing::warn!(node = %from, "unexpected part of a type's description ignored");
            return None;
        }
        bytes.extend_from_slice(&part.bytes);
        if bytes.len() == length {
            return Some(bytes);
        }
        self.0.insert(from, TypePart { bytes, ..partial });
        None
    }

    /// Drops the incomplete description of a departed participant.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Incomplete descriptions, for a state transfer to a new member.
    pub(crate) fn all(&self) -> Vec<(NodeId, TypePart)> {
        self.0.iter().map(|(node, part)| (*node, part.clone())).collect()
    }

    /// Takes over the incomplete descriptions of another member.
    pub(crate) fn take_over(&mut self, all: impl IntoIterator<Item = (NodeId, TypePart)>) {
        self.0 = BTreeMap::new();
        for (node, part) in all {
            self.add_part(node, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn told(length: usize) -> Vec<u8> {
        (0..length).map(|n| (n % 251) as u8).collect()
    }

    fn part(whole: u32, at: u32, bytes: &[u8]) -> TypePart {
        TypePart { whole, at, bytes: bytes.to_vec() }
    }

    #[test]
    fn type_description_is_complete_when_its_last_part_arrives() {
        for length in [1, LONGEST_PART, LONGEST_PART + 1, 5 * LONGEST_PART, LONGEST] {
            let told = told(length);
            let parts = TypePart::all(&told);
            assert_eq!(parts.len(), length.div_ceil(LONGEST_PART));
            let (mut one, mut last) = (PartialDescriptions::default(), None);
            for part in parts {
                assert_eq!(last, None, "description is incomplete before its last part");
                let carried = TypePart::from_bytes(&part.to_bytes()).unwrap();
                assert_eq!(carried, part);
                // Parts of other participants come in between, and a newcomer takes over the
                // incomplete descriptions.
                assert_eq!(one.add_part(B, TypePart::all(&told_by_b())[0].clone()), None);
                let mut newcomer = PartialDescriptions::default();
                newcomer.take_over(one.all());
                assert_eq!(newcomer.all(), one.all());
                last = newcomer.add_part(A, carried);
                one = newcomer;
            }
            assert_eq!(last.unwrap(), told);
            assert_eq!(
                one.all().len(),
                1,
                "only the other participant's description is incomplete"
            );
            one.forget(B);
            assert!(one.all().is_empty());
        }
    }

    fn told_by_b() -> Vec<u8> {
        told(LONGEST_PART + 1)
    }

    /// Bytes in another order would describe another type, or none.
    #[test]
    fn parts_out_of_order_form_no_type_description() {
        let description = told(3 * LONGEST_PART);
        let parts = TypePart::all(&description);
        assert!(parts[0].bytes != parts[1].bytes && parts[1].bytes != parts[2].bytes);
        let orders: [&[usize]; 9] = [
            &[0, 1, 2],
            &[0, 2, 1],
            &[1, 0, 2],
            &[1, 2, 0],
            &[2, 0, 1],
            &[2, 1, 0],
            &[0, 1, 1],
            &[0, 2, 2],
            &[0, 1, 1, 2],
        ];
        for order in orders {
            let mut partial = PartialDescriptions::default();
            let taken = order.iter().filter_map(|part| partial.add_part(A, parts[*part].clone()));
            let whole: Vec<Vec<u8>> = taken.collect();
            let wanted = if order == [0, 1, 2] { vec![description.clone()] } else { vec![] };
            assert!(whole == wanted, "{order:?} gave {} types", whole.len());
        }
    }

    #[test]
    fn invalid_part_discards_the_incomplete_description() {
        for wrong in [
            part(9, 5, &[1]),
            part(9, 3, &[1]),
            part(8, 4, &[1]),
            part(9, 4, &[]),
            part(9, 4, &[1; 6]),
            part(9, u32::MAX, &[1]),
            part(u32::MAX, 0, &[1]),
            part(LONGEST as u32 + 1, 0, &[1]),
            part(0, 0, &[]),
            part(0, 0, &[1]),
        ] {
            let mut partial = PartialDescriptions::default();
            assert_eq!(partial.add_part(A, part(9, 0, &[1; 4])), None);
            assert_eq!(partial.add_part(A, wrong.clone()), None, "{wrong:?}");
            assert!(partial.all().is_empty(), "{wrong:?}");
            assert_eq!(partial.add_part(A, part(9, 4, &[1; 5])), None);
            assert!(partial.all().is_empty());
            assert_eq!(partial.add_part(A, part(2, 0, &[7, 8])).unwrap(), [7, 8]);
        }
        // A new beginning is accepted, and drops the description begun before.
        let mut partial = PartialDescriptions::default();
        assert_eq!(partial.add_part(A, part(9, 0, &[1; 4])), None);
        assert_eq!(partial.add_part(A, part(3, 0, &[2; 2])), None);
        assert_eq!(partial.add_part(A, part(3, 2, &[3])).unwrap(), [2, 2, 3]);
    }
}
