//! Writes CDR into a slice, or counts the bytes it would write.
//!
//! Owns position and alignment. Never allocates: who wants a vector counts first, and then writes
//! into one of the right size.

use crate::{CdrError, Encoding, Endianness, HEADER_SIZE, StringFault, UNBOUNDED};

/// Where values are written as CDR.
///
/// Making one: [`over`](Self::over), [`counting`](Self::counting). Framing:
/// [`write_header`](Self::write_header), [`begin_delimited`](Self::begin_delimited),
/// [`end_delimited`](Self::end_delimited), [`finish`](Self::finish). The rest writes one value
/// each.
#[derive(Debug)]
pub struct CdrWriter<'a> {
    sink: Sink<'a>,
    position: usize,
    /// Alignment counts from here: after the header, if there is one.
    origin: usize,
    header_at: Option<usize>,
    encoding: Encoding,
}

#[derive(Debug)]
enum Sink<'a> {
    Bytes(&'a mut [u8]),
    Count,
}

/// A size in front of a collection that is still to be filled in; goes back to
/// [`CdrWriter::end_delimited`].
#[derive(Debug)]
#[must_use = "the size stays zero unless end_delimited gets this back"]
pub struct OpenWrite {
    /// Where the elements start; the size lies in the four bytes before.
    content: Option<usize>,
}

impl<'a> CdrWriter<'a> {
    /// A writer that fills `buffer` from its start and fails when it is full.
    pub fn over(buffer: &'a mut [u8], encoding: Encoding) -> Self {
        Self { sink: Sink::Bytes(buffer), position: 0, origin: 0, header_at: None, encoding }
    }

    /// A writer that writes nothing; its [`position`](Self::position) tells the size.
    pub fn counting(encoding: Encoding) -> CdrWriter<'static> {
        CdrWriter { sink: Sink::Count, position: 0, origin: 0, header_at: None, encoding }
    }

    /// How values are written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// How many bytes have been written.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Writes the encapsulation header; alignment counts from its end.
    pub fn write_header(&mut self) -> Result<(), CdrError> {
        let header_at = self.position;
        self.put(1, &self.encoding.header(0))?;
        self.origin = self.position;
        self.header_at = Some(header_at);
        Ok(())
    }

    /// Ends the payload and gives its size. Behind a header, the body is padded to a multiple of
    /// four, as the standard asks, and the header says by how much.
    pub fn finish(mut self) -> Result<usize, CdrError> {
        if let Some(header_at) = self.header_at {
            let padding = (self.origin.wrapping_sub(self.position) % HEADER_SIZE) as u8;
            self.put(1, &[0; HEADER_SIZE][..usize::from(padding)])?;
            let header = self.encoding.header(padding);
            self.patch(header_at, header);
        }
        Ok(self.position)
    }

    /// Opens a collection whose elements are not primitive: where the encoding wants it, leaves
    /// room for the collection's size in bytes.
    pub fn begin_delimited(&mut self) -> Result<OpenWrite, CdrError> {
        if !self.encoding.delimits_collections() {
            return Ok(OpenWrite { content: None });
        }
        self.write_u32(0)?;
        Ok(OpenWrite { content: Some(self.position) })
    }

    /// Closes what [`begin_delimited`](Self::begin_delimited) opened.
    pub fn end_delimited(&mut self, open: OpenWrite) -> Result<(), CdrError> {
        let Some(content) = open.content else { return Ok(()) };
        let length = self.position - content;
        let size =
            u32::try_from(length).map_err(|_| CdrError::TooLong { offset: content, length })?;
        let bytes = match self.encoding.endianness {
            Endianness::Big => size.to_be_bytes(),
            Endianness::Little => size.to_le_bytes(),
        };
        self.patch(content - size_of::<u32>(), bytes);
        Ok(())
    }

    /// Writes a boolean as one byte.
    pub fn write_bool(&mut self, value: bool) -> Result<(), CdrError> {
        self.write_u8(u8::from(value))
    }

    /// Writes the number of elements of a sequence, which may not exceed `bound`.
    pub fn write_length(&mut self, length: usize, bound: u32) -> Result<(), CdrError> {
        let offset = self.position;
        let number = u32::try_from(length).map_err(|_| CdrError::TooLong { offset, length })?;
        if number > bound {
            return Err(CdrError::BoundExceeded { offset, bound, found: length });
        }
        self.write_u32(number)
    }

    /// Writes a string of at most `bound` bytes: its length with the closing NUL, its bytes, NUL.
    pub fn write_string(&mut self, text: &str, bound: u32) -> Result<(), CdrError> {
        let offset = self.position;
        if bound != UNBOUNDED && text.len() > bound as usize {
            return Err(CdrError::BoundExceeded { offset, bound, found: text.len() });
        }
        if text.as_bytes().contains(&0) {
            return Err(CdrError::InvalidString { offset, fault: StringFault::InnerNul });
        }
        self.write_length(text.len().saturating_add(1), UNBOUNDED)?;
        self.put(1, text.as_bytes())?;
        self.write_u8(0)
    }

    /// Writes bytes as they are, without alignment.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CdrError> {
        self.put(1, bytes)
    }

    fn put(&mut self, align: usize, bytes: &[u8]) -> Result<(), CdrError> {
        if let Some(room) = self.claim(align, bytes.len())? {
            room.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Aligns and gives the next `size` bytes to fill, or `None` where bytes are only counted.
    /// Padding is written as zeroes, so that nothing old goes out with it.
    pub(crate) fn claim(
        &mut self,
        align: usize,
        size: usize,
    ) -> Result<Option<&mut [u8]>, CdrError> {
        let align = align.min(self.encoding.max_align());
        let offset = self.position;
        let padding = self.origin.wrapping_sub(offset) % align;
        let too_long = CdrError::TooLong { offset, length: size };
        let needed = padding.checked_add(size).ok_or(too_long.clone())?;
        let end = offset.checked_add(needed).ok_or(too_long)?;
        let room = match &mut self.sink {
            Sink::Count => None,
            Sink::Bytes(buffer) => {
                let left = buffer.len() - offset;
                let room =
                    buffer.get_mut(offset..end).ok_or(CdrError::NoRoom { offset, needed, left })?;
                let (padding, room) = room.split_at_mut(padding);
                padding.fill(0);
                Some(room)
            }
        };
        self.position = end;
        Ok(room)
    }

    fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        if let Sink::Bytes(buffer) = &mut self.sink {
            buffer[at..at + 4].copy_from_slice(&bytes);
        }
    }
}

/// One method a primitive: align, then the bytes in the encoding's order.
macro_rules! write_number {
    ($($name:ident: $number:ty, $what:literal;)*) => {
        impl CdrWriter<'_> {
            $(
                #[doc = concat!("Writes ", $what, ", aligned.")]
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
