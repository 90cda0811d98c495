//! Reader of CDR from a slice.
//!
//! Owns position, alignment and the end of the readable bytes. Never allocates and never trusts a
//! length: each is compared with the bytes that are left.

use crate::writer::{
    EM_MUST_UNDERSTAND, LONG_MUST_UNDERSTAND, PID_EXTENDED, PID_IGNORE, PID_LIST_END,
    SHORT_MUST_UNDERSTAND, has_nul,
};
use crate::{
    CdrError, CdrVersion, Encoding, Endianness, Extensibility, HEADER_SIZE, LARGEST_MEMBER_ID,
    MAX_DEPTH, StringFault, TryConstruct, UNBOUNDED,
};

/// Reader of CDR values.
///
/// Constructors: [`new`](Self::new), [`from_payload`](Self::from_payload). Framing:
/// [`begin_delimited`](Self::begin_delimited), [`end_delimited`](Self::end_delimited),
/// [`next_parameter`](Self::next_parameter), [`end_parameter`](Self::end_parameter),
/// [`finish`](Self::finish). Each other method reads one value.
#[derive(Debug)]
pub struct CdrReader<'a> {
    /// All bytes, and the part that may be read at present.
    whole: &'a [u8],
    bytes: &'a [u8],
    position: usize,
    /// Offset from which alignment counts: after the header, or at the beginning of a parameter
    /// of XCDR1.
    origin: usize,
    /// Mask applied to offsets for alignments above four bytes.
    align_mask: usize,
    encoding: Encoding,
    /// Identifier in the header, if there is one.
    representation: Option<u16>,
    /// Whether only members of the key are present.
    key: bool,
    depth: u32,
    /// Whether reading continues after a disallowed value, which is recorded in `fault`.
    lenient: bool,
    fault: Option<CdrError>,
}

/// An open collection with a known size; passed to [`CdrReader::end_delimited`] or
/// [`CdrReader::skip_delimited`].
#[derive(Debug)]
#[must_use = "the reader stays confined to the collection unless end_delimited gets this back"]
pub struct OpenRead {
    /// End of the collection and the end that applies outside, if the collection has a size of
    /// its own.
    ends: Option<(usize, usize)>,
}

/// A parameter to which the reader is confined; passed to [`CdrReader::end_parameter`].
#[derive(Debug)]
#[must_use = "the reader stays confined to the parameter unless end_parameter gets this back"]
pub struct Parameter {
    /// Offset of its header.
    pub offset: usize,
    /// Id of the member.
    pub id: u32,
    /// Whether the sample must be refused if the member is not known.
    pub must_understand: bool,
    /// Whether the parameter has no meaning for any reader.
    pub ignored: bool,
    outer_end: usize,
    outer_origin: usize,
}

impl Parameter {
    /// Whether the parameter is empty: in XCDR1, an absent optional member.
    pub(crate) fn is_empty(&self, reader: &CdrReader<'_>) -> bool {
        reader.remaining() == 0
    }
}

impl<'a> CdrReader<'a> {
    /// Makes a reader of a body without header, in a known encoding.
    #[inline]
    pub fn new(body: &'a [u8], encoding: Encoding) -> Self {
        Self {
            whole: body,
            bytes: body,
            position: 0,
            origin: 0,
            align_mask: encoding.max_align() - 1,
            encoding,
            representation: None,
            key: false,
            depth: 0,
            lenient: false,
            fault: None,
        }
    }

    /// Makes a reader of a payload, whose encapsulation header gives the encoding.
    #[inline]
    pub fn from_payload(payload: &'a [u8]) -> Result<Self, CdrError> {
        let left = payload.len();
        let truncated = CdrError::Truncated {
            offset: 0,
            expected: "an encapsulation header",
            needed: HEADER_SIZE,
            left,
        };
        let header = payload.first_chunk::<HEADER_SIZE>().ok_or(truncated)?;
        let (encoding, representation, announced) = Encoding::parse_header(*header)?;
        // Padding fills a payload up to a multiple of four. Some writers count the bytes in the
        // header and leave them out.
        let padding = if left.is_multiple_of(4) { announced } else { 0 };
        let end = left - padding;
        if end < HEADER_SIZE {
            return Err(CdrError::Truncated {
                offset: HEADER_SIZE,
                expected: "the padding that the header announces",
                needed: padding,
                left: left - HEADER_SIZE,
            });
        }
        Ok(Self {
            position: HEADER_SIZE,
            origin: HEADER_SIZE,
            representation: Some(representation),
            ..Self::new(&payload[..end], encoding)
        })
    }

    /// Makes a reader of key-only values in the form [`KeyForm::Payload`](crate::KeyForm).
    #[must_use]
    pub fn of_keys(self) -> Self {
        Self { key: true, ..self }
    }

    /// Whether values have only their keys.
    #[inline]
    pub fn is_of_keys(&self) -> bool {
        self.key
    }

    /// Checks that the header, if there is one, gives the form of a type of this extensibility.
    #[inline]
    pub fn expect(&self, extensibility: Extensibility) -> Result<(), CdrError> {
        let expected = self.encoding.representation_id(extensibility);
        match self.representation {
            Some(found) if found != expected => {
                Err(CdrError::WrongRepresentation { found, expected })
            }
            _ => Ok(()),
        }
    }

    /// Returns the encoding of values.
    #[inline]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Limits reading to bytes before this offset.
    #[inline(always)]
    fn end_at(&mut self, end: usize) {
        self.bytes = &self.whole[..end];
    }

    /// Checks that the value ends where the bytes end. Up to three more bytes are accepted as
    /// padding, because some writers do not announce it.
    #[inline]
    pub fn finish(self) -> Result<(), CdrError> {
        let left = self.remaining();
        if left >= HEADER_SIZE {
            return Err(CdrError::TrailingBytes { offset: self.position, left });
        }
        Ok(())
    }

    /// Opens a collection of elements that are not primitive, or a type that may change. If the
    /// encoding has a size header, reads the size and confines the reader to that many bytes.
    pub fn begin_delimited(&mut self) -> Result<OpenRead, CdrError> {
        if !self.encoding.delimits_collections() {
            return Ok(OpenRead { ends: None });
        }
        let offset = self.position;
        let length = self.read_u32()?;
        let left = self.remaining();
        if length as usize > left {
            return Err(CdrError::Truncated {
                offset,
                expected: "a value of the size in front of it",
                needed: length as usize,
                left,
            });
        }
        let (end, outer_end) = (self.position + length as usize, self.bytes.len());
        self.end_at(end);
        Ok(OpenRead { ends: Some((end, outer_end)) })
    }

    /// Closes a scope of [`begin_delimited`](Self::begin_delimited). The collection must have been
    /// read to its end.
    pub fn end_delimited(&mut self, open: OpenRead) -> Result<(), CdrError> {
        let Some((_, outer_end)) = open.ends else { return Ok(()) };
        let left = self.remaining();
        if left > 0 {
            return Err(CdrError::SizeMismatch { offset: self.position, left });
        }
        self.end_at(outer_end);
        Ok(())
    }

    /// Closes a scope of [`begin_delimited`](Self::begin_delimited), and skips the remaining bytes:
    /// members of a later version of the type.
    pub fn skip_delimited(&mut self, open: OpenRead) {
        if let Some((end, outer_end)) = open.ends {
            self.position = end;
            self.end_at(outer_end);
        }
    }

    /// Returns the next parameter of a list and confines the reader to it; `None` at the end of
    /// the list.
    pub fn next_parameter(&mut self) -> Result<Option<Parameter>, CdrError> {
        match self.encoding.version {
            CdrVersion::Xcdr1 => self.next_of_xcdr1(),
            CdrVersion::Xcdr2 if self.remaining() == 0 => Ok(None),
            CdrVersion::Xcdr2 => self.next_of_xcdr2().map(Some),
        }
    }

    fn next_of_xcdr1(&mut self) -> Result<Option<Parameter>, CdrError> {
        self.take(4, 0, "the header of a parameter")?;
        let offset = self.position;
        let (pid, short_size) = (self.read_u16()?, self.read_u16()?);
        let mut must_understand = pid & SHORT_MUST_UNDERSTAND != 0;
        let (mut id, mut size) = (u32::from(pid & PID_BITS), u32::from(short_size));
        let mut ignored = pid & SHORT_FOREIGN != 0;
        match pid & PID_BITS {
            PID_LIST_END => return Ok(None),
            PID_IGNORE => ignored = true,
            PID_EXTENDED => {
                let long = self.read_u32()?;
                id = long & LARGEST_MEMBER_ID;
                must_understand = long & LONG_MUST_UNDERSTAND != 0;
                ignored = long & LONG_FOREIGN != 0;
                size = self.read_u32()?;
            }
            _ => {}
        }
        let outer_origin = self.origin;
        self.origin = self.position;
        self.confine(
            Parameter { offset, id, must_understand, ignored, outer_end: 0, outer_origin },
            size as usize,
        )
        .map(Some)
    }

    fn next_of_xcdr2(&mut self) -> Result<Parameter, CdrError> {
        self.take(4, 0, "the header of a parameter")?;
        let offset = self.position;
        let header = self.read_u32()?;
        let must_understand = header & EM_MUST_UNDERSTAND != 0;
        let (code, id) = (header >> 28 & 0b111, header & LARGEST_MEMBER_ID);
        let size = if code < 4 {
            1 << code
        } else {
            let start = self.position;
            let count = self.read_u32()? as usize;
            match code {
                4 => count,
                _ => {
                    // The length is also the value's own first four bytes.
                    self.position = start;
                    let unit = [1, 4, 8][code as usize - 5];
                    count.saturating_mul(unit).saturating_add(4)
                }
            }
        };
        let outer_origin = self.origin;
        self.confine(
            Parameter { offset, id, must_understand, ignored: false, outer_end: 0, outer_origin },
            size,
        )
    }

    fn confine(&mut self, parameter: Parameter, size: usize) -> Result<Parameter, CdrError> {
        let left = self.remaining();
        if size > left {
            return Err(CdrError::Truncated {
                offset: parameter.offset,
                expected: "a parameter of the length in its header",
                needed: size,
                left,
            });
        }
        let outer_end = self.bytes.len();
        self.end_at(self.position + size);
        Ok(Parameter { outer_end, ..parameter })
    }

    /// Closes a parameter and skips its unread bytes.
    pub fn end_parameter(&mut self, parameter: Parameter) {
        self.position = self.bytes.len();
        self.end_at(parameter.outer_end);
        self.origin = parameter.outer_origin;
    }

    /// Closes a union whose discriminator selects nothing, if the end of the union is known. If the
    /// discriminator's action is to use the default, the default replaces the union. Otherwise a
    /// fault is reported, which the caller may have asked to receive later.
    pub fn skip_union(
        &mut self,
        open: OpenRead,
        error: CdrError,
        how: TryConstruct,
    ) -> Result<(), CdrError> {
        if open.ends.is_none() || !matches!(error, CdrError::UnknownDiscriminator { .. }) {
            return Err(error);
        }
        if how != TryConstruct::UseDefault {
            self.fault(error)?;
        }
        self.skip_delimited(open);
        Ok(())
    }

    /// Reads the content of a parameter. Its end is known, so a union in it whose discriminator
    /// selects nothing is an ordinary fault.
    pub fn read_confined<T>(
        &mut self,
        default: impl FnOnce() -> T,
        read: impl FnOnce(&mut Self) -> Result<T, CdrError>,
    ) -> Result<T, CdrError> {
        let (end, origin, depth) = (self.bytes.len(), self.origin, self.depth);
        match read(self) {
            Err(error) if matches!(error.root(), CdrError::UnknownDiscriminator { .. }) => {
                self.fault(error)?;
                self.end_at(end);
                (self.origin, self.depth) = (origin, depth);
                self.position = end;
                Ok(default())
            }
            result => result,
        }
    }

    /// Goes one level deeper into a value. The input decides the depth of recursive values, so the
    /// depth is limited to protect the stack.
    #[inline]
    pub fn enter(&mut self) -> Result<(), CdrError> {
        if self.depth >= MAX_DEPTH {
            return Err(CdrError::TooDeep { offset: self.position });
        }
        self.depth += 1;
        Ok(())
    }

    /// Goes back up one level.
    #[inline]
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Reports a value that its type does not allow and whose end is known. The caller may have
    /// asked to receive such faults later ([`leniently`](Self::leniently)).
    #[inline]
    pub fn fault(&mut self, error: CdrError) -> Result<(), CdrError> {
        if !self.lenient {
            return Err(error);
        }
        self.fault.get_or_insert(error);
        Ok(())
    }

    /// Reads a value and continues past disallowed values; returns the first such fault too.
    pub fn leniently<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CdrError>,
    ) -> Result<(T, Option<CdrError>), CdrError> {
        let outer = (self.lenient, self.fault.take());
        self.lenient = true;
        let value = read(self);
        let fault = self.fault.take();
        (self.lenient, self.fault) = outer;
        Ok((value?, fault))
    }

    /// Reads a value after which reading cannot continue if its type does not allow it.
    pub fn strictly<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CdrError>,
    ) -> Result<T, CdrError> {
        let lenient = std::mem::replace(&mut self.lenient, false);
        let value = read(self);
        self.lenient = lenient;
        value
    }

    /// Reads a boolean.
    #[inline(always)]
    pub fn read_bool(&mut self) -> Result<bool, CdrError> {
        let offset = self.position;
        match self.take(1, 1, "a boolean")?[0] {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(CdrError::InvalidBool { offset, found }),
        }
    }

    /// Reads the number of elements of a sequence of at most `bound` elements, each of at least
    /// `min_size` bytes. Checks that the bytes for them are present, so the caller may allocate.
    #[inline]
    pub fn read_length(&mut self, min_size: usize, bound: u32) -> Result<usize, CdrError> {
        let offset = self.position;
        let length = self.read_u32()?;
        let left = self.remaining();
        if length > bound {
            self.fault(CdrError::BoundExceeded { offset, bound, found: length as usize })?;
        }
        // Without a minimum of one byte per element, four bytes could request billions of elements.
        // A key-only element may have fewer bytes than the minimum.
        let least = if self.key { 1 } else { min_size.max(1) };
        if length as usize > left / least {
            return Err(CdrError::LengthExceedsData { offset, length, left });
        }
        Ok(length as usize)
    }

    /// Reads a string of at most `bound` bytes, without its closing NUL. A length of zero, which
    /// some writers use for an empty string, is accepted.
    #[inline(never)]
    pub fn read_string(&mut self, bound: u32) -> Result<&'a str, CdrError> {
        let length_at = self.position;
        let length = self.read_u32()?;
        let offset = self.position;
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let Some(bytes) = rest.get(..length as usize) else {
            return Err(CdrError::LengthExceedsData {
                offset: length_at,
                length,
                left: rest.len(),
            });
        };
        self.position = offset + bytes.len();
        let Some((&last, text)) = bytes.split_last() else { return Ok("") };
        if bound != UNBOUNDED && text.len() > bound as usize {
            let found = text.len();
            self.fault(CdrError::BoundExceeded { offset: length_at, bound, found })?;
        }
        let fault = |fault| CdrError::InvalidString { offset, fault };
        if last != 0 {
            return Err(fault(StringFault::NotTerminated));
        }
        // Most strings are short and ASCII: one check confirms that, and that there is no NUL.
        if text.len() <= SHORT && is_plain(text) {
            // SAFETY: all bytes are below 0x80, so each is a UTF-8 character.
            return Ok(unsafe { str::from_utf8_unchecked(text) });
        }
        if has_nul(text) {
            return Err(fault(StringFault::InnerNul));
        }
        str::from_utf8(text).map_err(|_| fault(StringFault::NotUtf8))
    }

    /// Reads bytes as they are, without alignment.
    pub fn read_bytes(&mut self, size: usize) -> Result<&'a [u8], CdrError> {
        self.take(1, size, "bytes")
    }

    /// Aligns and takes the next `size` bytes.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        align: usize,
        size: usize,
        expected: &'static str,
    ) -> Result<&'a [u8], CdrError> {
        let start = self.aligned(align);
        match self.bytes.get(start..).and_then(|rest| rest.get(..size)) {
            Some(taken) => {
                self.position = start + size;
                Ok(taken)
            }
            None => Err(self.truncated(start.saturating_add(size), expected)),
        }
    }

    /// Aligns and takes the next number.
    #[inline(always)]
    fn take_number<const SIZE: usize>(
        &mut self,
        expected: &'static str,
    ) -> Result<[u8; SIZE], CdrError> {
        let start = self.aligned(SIZE);
        match self.bytes.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(taken) => {
                self.position = start + SIZE;
                Ok(*taken)
            }
            None => Err(self.truncated(start + SIZE, expected)),
        }
    }

    /// Returns the next offset of this alignment.
    #[inline(always)]
    fn aligned(&self, align: usize) -> usize {
        // Alignments up to four are the same in all encodings.
        let mask = if align <= 4 { align - 1 } else { self.align_mask };
        self.position + (self.origin.wrapping_sub(self.position) & mask)
    }

    #[cold]
    #[inline(never)]
    fn truncated(&self, end: usize, expected: &'static str) -> CdrError {
        let (offset, left) = (self.position, self.remaining());
        CdrError::Truncated { offset, expected, needed: end - offset, left }
    }
}

/// Maximum length of strings that two words cover.
const SHORT: usize = 16;
/// Bits of the first half of a short header that contain the id.
const PID_BITS: u16 = 0x3fff;
/// Flag in a short header: the id is specific to an implementation.
const SHORT_FOREIGN: u16 = 0x8000;
/// Flag in a long header: the id is specific to an implementation.
const LONG_FOREIGN: u32 = 1 << 31;

/// Whether a short text is ASCII without NUL. The text is checked in words, which may overlap.
#[inline(always)]
fn is_plain(text: &[u8]) -> bool {
    const LOW: u64 = u64::MAX / 0xff;
    const HIGH: u64 = LOW << 7;
    // Subtracting 1 from bytes of 1 to 127 borrows from no other byte; a NUL borrows, and its
    // highest bit becomes set.
    let is_plain = |word: u64| (word | word.wrapping_sub(LOW)) & HIGH == 0;
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return is_plain(u64::from_ne_bytes(*first)) && is_plain(u64::from_ne_bytes(*last));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u32::from_ne_bytes(*first), u32::from_ne_bytes(*last));
        return is_plain(u64::from(first) | u64::from(last) << 32);
    }
    text.iter().all(|byte| (1..0x80).contains(byte))
}

/// One method per primitive: aligns, then reads the bytes in the encoding's order.
macro_rules! read_number {
    ($($name:ident: $number:ty, $what:literal;)*) => {
        impl CdrReader<'_> {
            $(
                #[doc = concat!("Reads ", $what, ", aligned.")]
                #[inline(always)]
                pub fn $name(&mut self) -> Result<$number, CdrError> {
                    const SIZE: usize = size_of::<$number>();
                    let bytes = self.take_number::<SIZE>($what)?;
                    Ok(match self.encoding.endianness {
                        Endianness::Big => <$number>::from_be_bytes(bytes),
                        Endianness::Little => <$number>::from_le_bytes(bytes),
                    })
                }
            )*
        }
    };
}

read_number! {
    read_u8: u8, "an unsigned 8-bit number";
    read_i8: i8, "a signed 8-bit number";
    read_u16: u16, "an unsigned 16-bit number";
    read_i16: i16, "a signed 16-bit number";
    read_u32: u32, "an unsigned 32-bit number";
    read_i32: i32, "a signed 32-bit number";
    read_u64: u64, "an unsigned 64-bit number";
    read_i64: i64, "a signed 64-bit number";
    read_f32: f32, "a 32-bit floating-point number";
    read_f64: f64, "a 64-bit floating-point number";
}
