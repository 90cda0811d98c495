//! Reads CDR from a slice.
//!
//! Owns position, alignment and the end that nothing is read past. Never allocates and never
//! trusts a length: each is compared with the bytes that are left.

use crate::writer::{
    EM_MUST_UNDERSTAND, LONG_MUST_UNDERSTAND, PID_EXTENDED, PID_IGNORE, PID_LIST_END,
    SHORT_MUST_UNDERSTAND, has_nul,
};
use crate::{
    CdrError, CdrVersion, Encoding, Endianness, Extensibility, HEADER_SIZE, LARGEST_MEMBER_ID,
    MAX_DEPTH, StringFault, TryConstruct, UNBOUNDED,
};

/// Where values are read from.
///
/// Making one: [`new`](Self::new), [`from_payload`](Self::from_payload). Framing:
/// [`begin_delimited`](Self::begin_delimited), [`end_delimited`](Self::end_delimited),
/// [`next_parameter`](Self::next_parameter), [`end_parameter`](Self::end_parameter),
/// [`finish`](Self::finish). The rest reads one value each.
#[derive(Debug)]
pub struct CdrReader<'a> {
    /// All there is, and of it what may be read now.
    whole: &'a [u8],
    bytes: &'a [u8],
    position: usize,
    /// Alignment counts from here: after the header, or where a parameter of XCDR1 begins.
    origin: usize,
    /// What alignment to more than four bytes leaves of an offset.
    align_mask: usize,
    encoding: Encoding,
    /// What the header says, if there is one.
    representation: Option<u16>,
    /// Only members of the key are there.
    key: bool,
    depth: u32,
    /// What a type does not allow is kept in `fault`, and reading goes on.
    lenient: bool,
    fault: Option<CdrError>,
}

/// A collection whose size is known; goes back to [`CdrReader::end_delimited`] or
/// [`CdrReader::skip_delimited`].
#[derive(Debug)]
#[must_use = "the reader stays confined to the collection unless end_delimited gets this back"]
pub struct OpenRead {
    /// The collection's end and the one that held outside, if the collection has one of its own.
    ends: Option<(usize, usize)>,
}

/// A parameter that the reader is confined to; goes back to [`CdrReader::end_parameter`].
#[derive(Debug)]
#[must_use = "the reader stays confined to the parameter unless end_parameter gets this back"]
pub struct Parameter {
    /// Where its header stands.
    pub offset: usize,
    /// The member's id.
    pub id: u32,
    /// Whether the sample has to be refused if the member is not known.
    pub must_understand: bool,
    /// Whether it means nothing to anybody.
    pub ignored: bool,
    outer_end: usize,
    outer_origin: usize,
}

impl Parameter {
    /// Whether nothing is in it: in XCDR1, an optional member that is absent.
    pub(crate) fn is_empty(&self, reader: &CdrReader<'_>) -> bool {
        reader.remaining() == 0
    }
}

impl<'a> CdrReader<'a> {
    /// A reader of a body without header, in a known encoding.
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

    /// A reader of a payload, whose encapsulation header says how it is encoded.
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
        let (encoding, representation, padding) = Encoding::parse_header(*header)?;
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

    /// The same, of values that are there with their keys only, as [`KeyForm::Payload`](crate::KeyForm) has them.
    #[must_use]
    pub fn of_keys(self) -> Self {
        Self { key: true, ..self }
    }

    /// Whether values are there with their keys only.
    #[inline]
    pub fn is_of_keys(&self) -> bool {
        self.key
    }

    /// Checks that the header, if there is one, announces the form of a type of this extensibility.
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

    /// How values are read.
    #[inline]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The offset of the next byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Nothing at or after this offset is read.
    #[inline(always)]
    fn end_at(&mut self, end: usize) {
        self.bytes = &self.whole[..end];
    }

    /// Checks that the value ends where the bytes end. Up to three bytes more are taken as padding
    /// of writers that do not announce it.
    #[inline]
    pub fn finish(self) -> Result<(), CdrError> {
        let left = self.remaining();
        if left >= HEADER_SIZE {
            return Err(CdrError::TrailingBytes { offset: self.position, left });
        }
        Ok(())
    }

    /// Opens a collection whose elements are not primitive, or a type that may change: where the
    /// encoding has it, reads the size and confines the reader to that many bytes.
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

    /// Closes what [`begin_delimited`](Self::begin_delimited) opened; the collection must have been
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

    /// Closes what [`begin_delimited`](Self::begin_delimited) opened, and skips what is left: members that
    /// a later version of the type has.
    pub fn skip_delimited(&mut self, open: OpenRead) {
        if let Some((end, outer_end)) = open.ends {
            self.position = end;
            self.end_at(outer_end);
        }
    }

    /// The next parameter of a list, to which the reader is then confined; `None` at the list's end.
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
                    // The number is the value's own first four bytes too.
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

    /// Closes a parameter; what has not been read of it is skipped.
    pub fn end_parameter(&mut self, parameter: Parameter) {
        self.position = self.bytes.len();
        self.end_at(parameter.outer_end);
        self.origin = parameter.outer_origin;
    }

    /// Closes a union whose discriminator selects nothing, if it says where it ends: its default takes its place, if
    /// that is asked of the discriminator. Otherwise it is a fault, of which whoever asked for the union may have asked to
    /// be told later.
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

    /// Reads the content of a parameter; its end is known, so that a union in it whose discriminator selects
    /// nothing is a fault like others.
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

    /// Goes one level deeper into a value. Bytes decide how deep values go that contain others of
    /// their own type, and the stack is not theirs.
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

    /// Says that a value was found which its type does not allow, and of which the end is known.
    /// Whoever asked for it may have asked to be told later.
    #[inline]
    pub fn fault(&mut self, error: CdrError) -> Result<(), CdrError> {
        if !self.lenient {
            return Err(error);
        }
        self.fault.get_or_insert(error);
        Ok(())
    }

    /// Reads something, and past what its type does not allow; gives the first such fault as well.
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

    /// Reads something that nothing can be read behind if its type does not allow it.
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

    /// Reads the number of elements of a sequence of at most `bound` elements, each of which takes
    /// at least `min_size` bytes. The bytes for them are known to be there, so that the caller may
    /// allocate.
    #[inline]
    pub fn read_length(&mut self, min_size: usize, bound: u32) -> Result<usize, CdrError> {
        let offset = self.position;
        let length = self.read_u32()?;
        let left = self.remaining();
        if length > bound {
            self.fault(CdrError::BoundExceeded { offset, bound, found: length as usize })?;
        }
        // An element that takes no bytes would let four bytes ask for billions of elements. Of a key alone only parts
        // are there.
        let least = if self.key { 1 } else { min_size.max(1) };
        if length as usize > left / least {
            return Err(CdrError::LengthExceedsData { offset, length, left });
        }
        Ok(length as usize)
    }

    /// Reads a string of at most `bound` bytes, without its closing NUL. A length of zero, which
    /// some writers give an empty string, is read as one.
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
        // Most strings are short and ASCII: one look finds that, and that there is no NUL.
        if text.len() <= SHORT && is_plain(text) {
            // SAFETY: all bytes are below 0x80, so that each is a character of UTF-8.
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

    /// The next offset of this alignment.
    #[inline(always)]
    fn aligned(&self, align: usize) -> usize {
        // Up to four, all encodings align alike.
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

/// The length of strings that two words cover.
const SHORT: usize = 16;
/// The bits of a short header's first half that are the id.
const PID_BITS: u16 = 0x3fff;
/// In a short header: the id is one that an implementation made up.
const SHORT_FOREIGN: u16 = 0x8000;
/// In a long header: the same.
const LONG_FOREIGN: u32 = 1 << 31;

/// Whether a short text is ASCII, without a NUL: looked at in words, which may overlap.
#[inline(always)]
fn is_plain(text: &[u8]) -> bool {
    const LOW: u64 = u64::MAX / 0xff;
    const HIGH: u64 = LOW << 7;
    // Of bytes from 1 to 127 none borrows from the next one; a NUL does, and gets the highest bit.
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

/// One method a primitive: align, then the bytes in the encoding's order.
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
