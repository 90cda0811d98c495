//! Bytes of run-time values, identical to those of derived types.
//!
//! Owns the parallel traversal of a type and a value. The rules of framing are those of `idl-cdr`,
//! whose reader and writer are used. Never knows the origin of a type.

mod read;
mod write;

pub(super) use read::read_primitive;

use idl_cdr::{
    CdrError, CdrReader, CdrVersion, CdrWriter, Encoding, Extensibility, KeyForm, MemberFraming,
    UNBOUNDED, WriteDefault,
};

use super::layout::LeastSizes;
use super::{DataError, Value, default_of};
use crate::DynamicType;
use crate::model::{NO_BOUND, StructureMember, TypeGraph};

/// Type name in errors of CDR, which take names of derived types only; the path identifies
/// the type.
const NAME: &str = "the type";
/// Maximum nesting depth of structs and unions, beyond the depth that
/// [`idl_cdr::MAX_DEPTH`] limits.
const MOST_LEVELS: usize = 300;

fn bound_of(bound: u32) -> u32 {
    if bound == NO_BOUND { UNBOUNDED } else { bound }
}

pub(crate) fn write(
    of: &DynamicType,
    value: &Value,
    encoding: Encoding,
) -> Result<Vec<u8>, DataError> {
    write_payload(of, value, encoding, None)
}

/// Returns the size of the payload of a value.
pub(crate) fn size(
    of: &DynamicType,
    value: &Value,
    encoding: Encoding,
) -> Result<usize, DataError> {
    pass(of, value, CdrWriter::counting(encoding), false)
}

/// Writes the payload of a value at the start of the bytes, and returns its size.
pub(crate) fn write_into(
    of: &DynamicType,
    value: &Value,
    encoding: Encoding,
    bytes: &mut [u8],
) -> Result<usize, DataError> {
    pass(of, value, CdrWriter::over(bytes, encoding), false)
}

/// Returns the payload of a value's key.
pub(crate) fn write_key_payload(
    of: &DynamicType,
    value: &Value,
    encoding: Encoding,
) -> Result<Vec<u8>, DataError> {
    write_payload(of, value, encoding, Some(KeyForm::Payload))
}

fn write_payload(
    of: &DynamicType,
    value: &Value,
    encoding: Encoding,
    key: Option<KeyForm>,
) -> Result<Vec<u8>, DataError> {
    let is_empty = key.is_some() && !of.is_keyed();
    let counted = of_key(CdrWriter::counting(encoding), key);
    let mut payload = vec![0; pass(of, value, counted, is_empty)?];
    pass(of, value, of_key(CdrWriter::over(&mut payload, encoding), key), is_empty)?;
    Ok(payload)
}

fn of_key(writer: CdrWriter<'_>, key: Option<KeyForm>) -> CdrWriter<'_> {
    match key {
        Some(form) => writer.of_keys(form),
        None => writer,
    }
}

/// Writes or counts a payload; a payload without contents if `empty` is set.
fn pass(
    of: &DynamicType,
    value: &Value,
    mut writer: CdrWriter<'_>,
    is_empty: bool,
) -> Result<usize, DataError> {
    let mut traversal = CdrTraversal::new(of);
    writer
        .write_header(of.extensibility())
        .and_then(|()| match is_empty {
            true => Ok(()),
            false => traversal.write(of.root, value, &mut writer),
        })
        .and_then(|()| writer.finish())
        .map_err(|source| traversal.fail(source))
}

pub(crate) fn write_key(of: &DynamicType, value: &Value) -> Result<Vec<u8>, DataError> {
    let mut key = Vec::new();
    if !of.is_keyed() {
        return Ok(key);
    }
    for writing in [false, true] {
        let mut writer = match writing {
            false => CdrWriter::counting(Encoding::PLAIN_CDR2_BE),
            true => CdrWriter::over(&mut key, Encoding::PLAIN_CDR2_BE),
        }
        .of_keys(KeyForm::Hash);
        let mut traversal = CdrTraversal::new(of);
        traversal.write(of.root, value, &mut writer).map_err(|source| traversal.fail(source))?;
        let size = writer.position();
        key.resize(size, 0);
    }
    Ok(key)
}

pub(crate) fn read(of: &DynamicType, payload: &[u8], key: bool) -> Result<Value, DataError> {
    let mut traversal = CdrTraversal::new(of);
    let mut reader = CdrReader::from_payload(payload).map_err(|source| traversal.fail(source))?;
    let extensibility = of.extensibility();
    if key {
        reader = reader.of_keys();
    }
    let value = reader
        .expect(extensibility)
        .and_then(|()| match key && !of.is_keyed() {
            true => Ok(default_of(&of.graph, of.root)),
            false => traversal.read(of.root, &mut reader, false),
        })
        .map_err(|source| traversal.fail(source))?;
    // In XCDR1, a longer version of an appendable type ends only where the payload ends. A key is
    // the same in all versions.
    let is_open = !key
        && extensibility == Extensibility::Appendable
        && reader.encoding().version == CdrVersion::Xcdr1;
    if !is_open {
        reader.finish().map_err(|source| traversal.fail(source))?;
    }
    Ok(value)
}

/// Returns the default of a member, which the function of a derived type writes.
pub(crate) fn default_of_descriptor(
    graph: &TypeGraph,
    member: &StructureMember,
    write: WriteDefault,
) -> Option<Value> {
    let mut counter = CdrWriter::counting(Encoding::PLAIN_CDR2_LE);
    write(&mut counter).ok()?;
    let mut bytes = vec![0; counter.position()];
    write(&mut CdrWriter::over(&mut bytes, Encoding::PLAIN_CDR2_LE)).ok()?;
    let mut traversal =
        CdrTraversal { graph, name: "", path: Vec::new(), least: LeastSizes::default() };
    let mut reader = CdrReader::new(&bytes, Encoding::PLAIN_CDR2_LE);
    traversal.read_inside(member, &mut reader, MemberFraming::Plain, true).ok()
}

struct CdrTraversal<'a> {
    graph: &'a TypeGraph,
    name: &'a str,
    /// Members on the way to the current one; they stay when an error occurs.
    path: Vec<&'a str>,
    least: LeastSizes,
}

type CdrResult = Result<(), CdrError>;

impl<'a> CdrTraversal<'a> {
    fn new(of: &'a DynamicType) -> Self {
        let least = LeastSizes::default();
        Self { graph: &of.graph, name: of.name(), path: Vec::new(), least }
    }

    fn fail(&self, source: CdrError) -> DataError {
        let mut path = if self.name.is_empty() { NAME.to_owned() } else { self.name.to_owned() };
        for step in &self.path {
            path.push('.');
            path.push_str(step);
        }
        DataError::Cdr { path, source }
    }

    fn enter(&mut self, name: &'a str, offset: usize) -> CdrResult {
        if self.path.len() >= MOST_LEVELS {
            return Err(CdrError::TooDeep { offset });
        }
        self.path.push(name);
        Ok(())
    }
}

fn form_of(extensibility: Extensibility) -> MemberFraming {
    match extensibility {
        Extensibility::Mutable => MemberFraming::Parameters,
        Extensibility::Final | Extensibility::Appendable => MemberFraming::Plain,
    }
}
