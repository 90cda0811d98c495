//! Instance handles as members of samples: the keys of builtin topics.
//!
//! Owns: their encoding as three numbers. Never does: determine the entity that a handle names.

use derecho_core::ids::NodeId;
use idl_cdr::{
    CdrError, CdrReader, CdrWriter, DdsType, Limits, PlainLayout, Reflect, TypeDescriptor, ValueRef,
};

use super::InstanceHandle;

/// A handle as it is encoded: the participant in two parts, and the participant's number for
/// the entity.
type EncodedHandle = [u64; 3];

impl InstanceHandle {
    fn to_parts(self) -> EncodedHandle {
        [(self.node.0 >> 64) as u64, self.node.0 as u64, self.entity]
    }

    fn of_parts([high, low, entity]: EncodedHandle) -> Self {
        InstanceHandle { node: NodeId(u128::from(high) << 64 | u128::from(low)), entity }
    }
}

impl Reflect for InstanceHandle {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Collection(self)
    }

    fn parts(&self) -> usize {
        self.to_parts().len()
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        self.to_parts().get(index).map_or(ValueRef::Absent, |part| ValueRef::Unsigned(*part))
    }
}

impl DdsType for InstanceHandle {
    const TYPE_NAME: &'static str = EncodedHandle::TYPE_NAME;
    const DESCRIPTOR: TypeDescriptor = EncodedHandle::DESCRIPTOR;
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = EncodedHandle::MIN_CDR_SIZE;
    const PRIMITIVE: bool = EncodedHandle::PRIMITIVE;
    const PRIMITIVE_ROW: bool = EncodedHandle::PRIMITIVE_ROW;
    const BOUNDS: usize = EncodedHandle::BOUNDS;
    const ELEMENTS: usize = EncodedHandle::ELEMENTS;
    const ROW_ELEMENTS: usize = EncodedHandle::ROW_ELEMENTS;
    const LENGTH_CODE: u32 = EncodedHandle::LENGTH_CODE;

    fn default_value() -> Self {
        InstanceHandle::NIL
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        self.to_parts().serialize(writer)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        EncodedHandle::deserialize(reader).map(Self::of_parts)
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        EncodedHandle::deserialize_bounded(reader, limits).map(Self::of_parts)
    }
}

#[cfg(test)]
mod tests {
    use idl_cdr::{from_cdr, to_cdr};

    use super::*;

    #[test]
    fn instance_handle_encodes_as_three_numbers_and_decodes_unchanged() {
        let handle = InstanceHandle { node: NodeId(7 << 64 | 9), entity: 11 };
        let bytes = to_cdr(&handle).unwrap();
        assert_eq!(bytes, to_cdr(&[7_u64, 9, 11]).unwrap());
        assert_eq!(from_cdr(&bytes), Ok(handle));
    }
}
