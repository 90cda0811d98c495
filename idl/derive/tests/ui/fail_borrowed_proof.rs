//! The proof that one type is plain cannot be shown for another.
use idl_cdr::{CdrError, CdrReader, CdrWriter, DdsType, PlainLayout, TypeDescriptor};

struct Forged(bool);

impl idl_cdr::Reflect for Forged {
    fn value(&self) -> idl_cdr::ValueRef<'_> {
        idl_cdr::ValueRef::Absent
    }
}

impl DdsType for Forged {
    const TYPE_NAME: &'static str = "Forged";
    const LAYOUT: Option<PlainLayout<Self>> = u8::LAYOUT;
    const DESCRIPTOR: TypeDescriptor = u8::DESCRIPTOR;
    const MIN_CDR_SIZE: usize = 1;

    fn default_value() -> Self {
        Forged(false)
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        writer.write_bool(self.0)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_bool().map(Self)
    }
}

fn main() {}
