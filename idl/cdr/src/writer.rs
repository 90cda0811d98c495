//! Writer of CDR into a slice, which can also only count bytes.
//!
//! Owns position and alignment. Never allocates: a caller that needs a vector counts first, and
//! then writes into one of the right size.

use crate::{
    CdrError, CdrVersion, DdsType, Encoding, Endianness, Extensibility, HEADER_SIZE, KeyForm,
    MAX_DEPTH, MemberDescriptor, MemberFraming, StringFault, UNBOUNDED,
};

/// Writer of CDR values.
///
/// Constructors: [`over`](Self::over), [`counting`](Self::counting). Framing:
/// [`write_header`](Self::write_header), [`begin_delimited`](Self::begin_delimited),
/// [`end_delimited`](Self::end_delimited), [`begin_parameter`](Self::begin_parameter),
/// [`end_parameter`](Self::end_parameter), [`finish`](Self::finish). Each other method writes
/// one value.
#[derive(Debug)]
pub struct CdrWriter<'a> {
    sink: Sink<'a>,
    position: usize,
    /// Offset from which alignment counts: after the header, or at the beginning of a parameter
    /// of XCDR1.
    origin: usize,
    /// Mask applied to offsets for alignments above four bytes.
    align_mask: usize,
    encoding: Encoding,
    header: Option<(usize, Extensibility)>,
    /// Form of keys, if only key members are written.
    key: Option<KeyForm>,
    depth: u32,
}

#[derive(Debug)]
enum Sink<'a> {
    Bytes(&'a mut [u8]),
    Count,
}

/// A size header of a collection that is filled in later; passed to [`CdrWriter::end_delimited`].
#[derive(Debug)]
#[must_use = "the size stays zero unless end_delimited gets this back"]
pub struct OpenWrite {
    /// Offset of the elements; the size is in the four bytes before.
    content: Option<usize>,
}

/// A parameter whose length is filled in later; passed to [`CdrWriter::end_parameter`].
#[derive(Debug)]
#[must_use = "the length stays zero unless end_parameter gets this back"]
pub struct OpenParameter {
    id: u32,
    must_understand: bool,
    /// Offset of the value.
    content: usize,
    header: ParameterHeader,
    /// Previous origin of alignment.
    origin: usize,
}

#[derive(Debug, PartialEq)]
enum ParameterHeader {
    /// XCDR1: four bytes; becomes a long header if the length does not fit.
    Short,
    /// XCDR1: twelve bytes, the length in the last four.
    Long,
    /// XCDR2: the length in the four bytes before the value.
    Counted,
    /// XCDR2: no length to fill in.
    Known,
}

/// First id of XCDR1 that needs a long header.
pub(crate) const FIRST_LONG_ID: u32 = 0x3f00;
/// Id that announces a long header.
pub(crate) const PID_EXTENDED: u16 = 0x3f01;
/// Id that ends a list.
pub(crate) const PID_LIST_END: u16 = 0x3f02;
/// Id of a parameter to skip.
pub(crate) const PID_IGNORE: u16 = 0x3f03;
/// Flag in a short header: a reader that does not know the member refuses the sample.
pub(crate) const SHORT_MUST_UNDERSTAND: u16 = 0x4000;
/// The must-understand flag in a long header.
pub(crate) const LONG_MUST_UNDERSTAND: u32 = 1 << 30;
/// The must-understand flag in a header of XCDR2.
pub(crate) const EM_MUST_UNDERSTAND: u32 = 1 << 31;
/// Additional size of a long header in bytes, compared to a short one.
const LONGER: usize = 8;

impl<'a> CdrWriter<'a> {
    /// Makes a writer that fills `buffer` from its start and fails when it is full.
    pub fn over(buffer: &'a mut [u8], encoding: Encoding) -> Self {
        Self::new(Sink::Bytes(buffer), encoding)
    }

    /// Makes a writer that only counts; its [`position`](Self::position) is the size.
    pub fn counting(encoding: Encoding) -> CdrWriter<'static> {
        CdrWriter::new(Sink::Count, encoding)
    }

    fn new(sink: Sink<'_>, encoding: Encoding) -> CdrWriter<'_> {
        CdrWriter {
            sink,
            position: 0,
            origin: 0,
            align_mask: encoding.max_align() - 1,
            encoding,
            header: None,
            key: None,
            depth: 0,
        }
    }

    /// Makes a writer that writes only the keys of values.
    #[must_use]
    pub fn of_keys(self, form: KeyForm) -> Self {
        Self { key: Some(form), ..self }
    }

    /// Returns the form of keys, if only keys are written.
    #[inline]
    pub fn key_form(&self) -> Option<KeyForm> {
        self.key
    }

    /// Returns the encoding of values.
    #[inline]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the number of bytes written.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Writes the encapsulation header of a type of this extensibility; alignment counts from its
    /// end.
    #[inline]
    pub fn write_header(&mut self, extensibility: Extensibility) -> Result<(), CdrError> {
        let header_at = self.position;
        self.put(1, &self.encoding.header(extensibility, 0))?;
        self.origin = self.position;
        self.header = Some((header_at, extensibility));
        Ok(())
    }

    /// Ends the payload and returns its size. After a header, the body is padded to a multiple of
    /// four, as the standard requires, and the header gives the number of padding bytes.
    #[inline]
    pub fn finish(mut self) -> Result<usize, CdrError> {
        if let Some((header_at, extensibility)) = self.header {
            let padding = (self.origin.wrapping_sub(self.position) % HEADER_SIZE) as u8;
            self.put(1, &[0; HEADER_SIZE][..usize::from(padding)])?;
            let header = self.encoding.header(extensibility, padding);
            self.patch(header_at, header);
        }
        Ok(self.position)
    }

    /// Opens a scope that carries its size in XCDR2: a collection of elements that are not
    /// primitive, or a type that may change. Leaves room for the size in bytes.
    pub fn begin_delimited(&mut self) -> Result<OpenWrite, CdrError> {
        if !self.encoding.delimits_collections() {
            return Ok(OpenWrite { content: None });
        }
        self.write_u32(0)?;
        Ok(OpenWrite { content: Some(self.position) })
    }

    /// Closes a scope of [`begin_delimited`](Self::begin_delimited).
    pub fn end_delimited(&mut self, open: OpenWrite) -> Result<(), CdrError> {
        let Some(content) = open.content else { return Ok(()) };
        let size = self.size_since(content)?;
        self.patch_u32(content - size_of::<u32>(), size);
        Ok(())
    }

    /// Opens a parameter. The length code, relevant in XCDR2, is that of the value's
    /// type: [`DdsType::LENGTH_CODE`].
    pub fn begin_parameter(
        &mut self,
        id: u32,
        must_understand: bool,
        length_code: u32,
    ) -> Result<OpenParameter, CdrError> {
        let origin = self.origin;
        let header = match self.encoding.version {
            CdrVersion::Xcdr2 => {
                let flag = if must_understand { EM_MUST_UNDERSTAND } else { 0 };
                self.write_u32(flag | length_code << 28 | id)?;
                if length_code == 4 {
                    self.write_u32(0)?;
                    ParameterHeader::Counted
                } else {
                    ParameterHeader::Known
                }
            }
            CdrVersion::Xcdr1 => {
                let long = id >= FIRST_LONG_ID;
                self.claim(4, if long { 4 + LONGER } else { 4 })?;
                self.origin = self.position;
                if long { ParameterHeader::Long } else { ParameterHeader::Short }
            }
        };
        Ok(OpenParameter { id, must_understand, content: self.position, header, origin })
    }

    /// Closes a parameter of [`begin_parameter`](Self::begin_parameter).
    pub fn end_parameter(&mut self, open: OpenParameter) -> Result<(), CdrError> {
        let OpenParameter { id, must_understand, content, header, origin } = open;
        let size = self.size_since(content)?;
        match header {
            ParameterHeader::Known => {}
            ParameterHeader::Counted => self.patch_u32(content - 4, size),
            ParameterHeader::Short => match u16::try_from(size) {
                Ok(size) => {
                    let flag = if must_understand { SHORT_MUST_UNDERSTAND } else { 0 };
                    self.patch_u16(content - 4, flag | id as u16);
                    self.patch_u16(content - 2, size);
                }
                Err(_) => {
                    // The value counts alignment from its own beginning, so it may be moved.
                    self.claim(1, LONGER)?;
                    if let Sink::Bytes(buffer) = &mut self.sink {
                        let end = content + size as usize;
                        buffer.copy_within(content..end, content + LONGER);
                    }
                    self.patch_long(content - 4, id, must_understand, size);
                }
            },
            ParameterHeader::Long => {
                self.patch_long(content - 4 - LONGER, id, must_understand, size);
            }
        }
        self.origin = origin;
        Ok(())
    }

    /// Ends a list of parameters where the encoding marks it.
    pub fn end_parameters(&mut self) -> Result<(), CdrError> {
        if self.encoding.version == CdrVersion::Xcdr1 {
            self.claim(4, 4)?;
            self.patch_u16(self.position - 4, PID_LIST_END | SHORT_MUST_UNDERSTAND);
            self.patch_u16(self.position - 2, 0);
        }
        Ok(())
    }

    /// Writes a member.
    #[inline(always)]
    pub fn write_member<T: DdsType>(
        &mut self,
        value: &T,
        member: &'static MemberDescriptor,
        form: MemberFraming,
    ) -> Result<(), CdrError> {
        match form {
            MemberFraming::Plain => value.serialize_member(self, member),
            MemberFraming::Parameters => value.serialize_parameter(self, member),
        }
        .map_err(|error| error.in_member(member.owner, member.name))
    }

    /// Goes one level deeper into a value; fails at a depth that a reader would refuse.
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

    /// Writes a boolean as one byte.
    #[inline(always)]
    pub fn write_bool(&mut self, value: bool) -> Result<(), CdrError> {
        self.write_u8(u8::from(value))
    }

    /// Writes the number of elements of a sequence, which may not exceed `bound`.
    #[inline]
    pub fn write_length(&mut self, length: usize, bound: u32) -> Result<(), CdrError> {
        let offset = self.position;
        let number = u32::try_from(length).map_err(|_| CdrError::TooLong { offset, length })?;
        if number > bound {
            return Err(CdrError::BoundExceeded { offset, bound, found: length });
        }
        self.write_u32(number)
    }

    /// Writes a string of at most `bound` bytes: its length with the closing NUL, its bytes, NUL.
    #[inline(never)]
    pub fn write_string(&mut self, text: &str, bound: u32) -> Result<(), CdrError> {
        let offset = self.position;
        if bound != UNBOUNDED && text.len() > bound as usize {
            return Err(CdrError::BoundExceeded { offset, bound, found: text.len() });
        }
        let size = text.len().saturating_add(1);
        self.write_length(size, UNBOUNDED)?;
        // The check for NUL is skipped where bytes are only counted.
        let Some(room) = self.claim(1, size)? else { return Ok(()) };
        if has_nul(text.as_bytes()) {
            return Err(CdrError::InvalidString { offset, fault: StringFault::InnerNul });
        }
        let (to, nul) = room.split_at_mut(text.len());
        to.copy_from_slice(text.as_bytes());
        nul.fill(0);
        Ok(())
    }

    /// Writes bytes as they are, without alignment.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CdrError> {
        self.put(1, bytes)
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, align: usize, bytes: &[u8]) -> Result<(), CdrError> {
        if let Some(room) = self.claim(align, bytes.len())? {
            room.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Aligns and returns the next `size` bytes to fill, or `None` where bytes are only counted.
    /// Padding is written as zeroes, so that no old memory content is sent.
    #[inline(always)]
    pub(crate) fn claim(
        &mut self,
        align: usize,
        size: usize,
    ) -> Result<Option<&mut [u8]>, CdrError> {
        let offset = self.position;
        // Alignments up to four are the same in all encodings.
        let mask = if align <= 4 { align - 1 } else { self.align_mask };
        let start = offset + (self.origin.wrapping_sub(offset) & mask);
        // Only a count of more bytes than fit into memory can saturate.
        let end = start.saturating_add(size);
        match &mut self.sink {
            Sink::Count => {
                self.position = end;
                Ok(None)
            }
            Sink::Bytes(buffer) => {
                if end > buffer.len() {
                    return Err(no_room(offset, end, buffer.len()));
                }
                if start != offset {
                    zero(&mut buffer[offset..start]);
                }
                self.position = end;
                Ok(Some(&mut buffer[start..end]))
            }
        }
    }

    fn size_since(&self, content: usize) -> Result<u32, CdrError> {
        let length = self.position - content;
        u32::try_from(length).map_err(|_| CdrError::TooLong { offset: content, length })
    }

    fn patch_long(&mut self, at: usize, id: u32, must_understand: bool, size: u32) {
        self.patch_u16(at, PID_EXTENDED | SHORT_MUST_UNDERSTAND);
        self.patch_u16(at + 2, LONGER as u16);
        self.patch_u32(at + 4, id | if must_understand { LONG_MUST_UNDERSTAND } else { 0 });
        self.patch_u32(at + 8, size);
    }

    fn patch_u16(&mut self, at: usize, number: u16) {
        self.patch(at, self.encoding.endianness.bytes_of_u16(number));
    }

    fn patch_u32(&mut self, at: usize, number: u32) {
        self.patch(at, self.encoding.endianness.bytes_of_u32(number));
    }

    fn patch<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Sink::Bytes(buffer) = &mut self.sink {
            buffer[at..at + N].copy_from_slice(&bytes);
        }
    }
}

impl Endianness {
    fn bytes_of_u16(self, number: u16) -> [u8; 2] {
        match self {
            Endianness::Big => number.to_be_bytes(),
            Endianness::Little => number.to_le_bytes(),
        }
    }

    fn bytes_of_u32(self, number: u32) -> [u8; 4] {
        match self {
            Endianness::Big => number.to_be_bytes(),
            Endianness::Little => number.to_le_bytes(),
        }
    }
}

/// Writes at most seven bytes of padding, too few for a call of `memset`.
#[inline(always)]
fn zero(padding: &mut [u8]) {
    let (fours, rest) = padding.as_chunks_mut::<4>();
    if let [four] = fours {
        *four = [0; 4];
    }
    if let [byte, ..] = rest {
        *byte = 0;
    }
    if let [_, byte, ..] = rest {
        *byte = 0;
    }
    if let [_, _, byte] = rest {
        *byte = 0;
    }
}

/// Whether a string has a NUL. Most strings are too short for a search by more than one byte at
/// a time.
#[inline]
pub(crate) fn has_nul(text: &[u8]) -> bool {
    const SHORT: usize = 16;
    if text.len() <= SHORT {
        text.iter().fold(false, |nul, &byte| nul | (byte == 0))
    } else {
        text.contains(&0)
    }
}

#[cold]
#[inline(never)]
fn no_room(offset: usize, end: usize, size: usize) -> CdrError {
    CdrError::NoRoom { offset, needed: end - offset, left: size - offset }
}

/// One method per primitive: aligns, then writes the bytes in the encoding's order.
macro_rules! write_number {
    ($($name:ident: $number:ty, $what:literal;)*) => {
        impl CdrWriter<'_> {
            $(
                #[doc = concat!("Writes ", $what, ", aligned.")]
                #[inline(always)]
                pub fn $name(&mut self, value: $number) -> Result<(), CdrError> {
                    let bytes = match self.encoding.endianness {
                        Endianness::Big => value.to_be_bytes(),
                        Endianness::Little => value.to_le_bytes(),
                    };
                    self.put(size_of::<$number>(), &bytes)
                }
            )*
        }
    };
}

write_number! {
    write_u8: u8, "an unsigned 8-bit number";
    write_i8: i8, "a signed 8-bit number";
    write_u16: u16, "an unsigned 16-bit number";
    write_i16: i16, "a signed 16-bit number";
    write_u32: u32, "an unsigned 32-bit number";
    write_i32: i32, "a signed 32-bit number";
    write_u64: u64, "an unsigned 64-bit number";
    write_i64: i64, "a signed 64-bit number";
    write_f32: f32, "a 32-bit floating-point number";
    write_f64: f64, "a 64-bit floating-point number";
}
