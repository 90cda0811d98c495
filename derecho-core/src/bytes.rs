//! Encoding of numbers and collections as bytes, used by messages between nodes.
//!
//! Owns: the encoding. Never does: trust a length. Bytes from a peer are read by a [`ByteReader`],
//! which returns `None` if they end too early.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::NodeId;

/// Value that can be sent.
pub trait Wire: Sized {
    /// Appends the encoded value to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes a value; `None` if the bytes do not encode one.
    fn decode(from: &mut ByteReader<'_>) -> Option<Self>;

    /// Returns the encoded value.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Decodes a value from bytes that contain nothing else.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(bytes);
        let whole = Self::decode(&mut reader)?;
        reader.0.is_empty().then_some(whole)
    }
}

/// Bytes that are not yet read.
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader(bytes)
    }

    /// Returns the next `N` bytes.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    /// Returns the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }
}

/// Implements `Wire` for structs, with their fields in the given order.
macro_rules! in_order {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl $crate::bytes::Wire for $name {
            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $($crate::bytes::Wire::encode(&self.$field, out);)*
            }

            fn decode(from: &mut $crate::bytes::ByteReader<'_>) -> Option<Self> {
                Some($name { $($field: $crate::bytes::Wire::decode(from)?),* })
            }
        }
    )*};
}
pub(crate) use in_order;

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
                from.take().map(<$number>::from_le_bytes)
            }
        }
    )*};
}

number!(u8, u16, u32, u64, u128);

impl Wire for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for NodeId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(NodeId(u128::decode(from)?))
    }
}

impl Wire for () {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(_: &mut ByteReader<'_>) -> Option<Self> {
        Some(())
    }
}

impl Wire for i64 {
    fn encode(&self, out: &mut Vec<u8>) {
        self.cast_unsigned().encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        u64::decode(from).map(u64::cast_signed)
    }
}

impl Wire for String {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let length = u32::decode(from)? as usize;
        String::from_utf8(from.bytes(length)?.to_vec()).ok()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(Vec::<(K, V)>::decode(from)?.into_iter().collect())
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(Vec::decode(from)?.into_iter().collect())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        self.iter().for_each(|some| some.encode(out));
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(if bool::decode(from)? { Some(T::decode(from)?) } else { None })
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        T::decode(from).map(Arc::new)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some((A::decode(from)?, B::decode(from)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let count = u32::decode(from)? as usize;
        // Every item takes at least one byte (there are no lists of `()`), so an impossible length
        // is rejected before memory is allocated.
        if count > from.0.len() {
            return None;
        }
        (0..count).map(|_| T::decode(from)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn encoded_value_is_decoded_and_its_prefixes_are_refused() {
        let what = vec![(NodeId(7), Some(vec![1_u64, 2])), (NodeId(u128::MAX), None)];
        let bytes = what.to_bytes();
        assert_eq!(Vec::from_bytes(&bytes), Some(what));
        for end in 0..bytes.len() {
            assert_eq!(Vec::<(NodeId, Option<Vec<u64>>)>::from_bytes(&bytes[..end]), None);
        }
    }

    #[test]
    fn strings_and_maps_are_decoded_unchanged() {
        let what = BTreeMap::from([(String::from("é"), (-7_i64, ())), (String::new(), (0, ()))]);
        assert_eq!(BTreeMap::from_bytes(&what.to_bytes()), Some(what));
        assert_eq!(String::from_bytes(&[1, 0, 0, 0, 0xff]), None, "no text");
    }

    #[test]
    fn impossible_length_is_refused_without_allocation() {
        assert_eq!(Vec::<u64>::from_bytes(&[0xff; 12]), None);
        assert_eq!(bool::from_bytes(&[2]), None);
    }
}
