//! Reads CDR from a slice.
//!
//! Owns position, alignment and the end that nothing is read past. Never allocates and never
//! trusts a length: each is compared with the bytes that are left.

use crate::{CdrError, Encoding, Endianness, HEADER_SIZE, StringFault, UNBOUNDED};

/// Where values are read from.
///
/// Making one: [`new`](Self::new), [`from_payload`](Self::from_payload). Framing:
/// [`begin_delimited`](Self::begin_delimited), [`end_delimited`](Self::end_delimited),
/// [`finish`](Self::finish). The rest reads one value each.
#[derive(Debug)]
pub struct CdrReader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Nothing at or after this offset is read; at most the length of `bytes`.
    end: usize,
    /// Alignment counts from here: after the header, if there is one.
    origin: usize,
    encoding: Encoding,
}

/// A collection whose size is known; goes back to [`CdrReader::end_delimited`].
#[derive(Debug)]
#[must_use = "the reader stays confined to the collection unless end_delimited gets this back"]
pub struct OpenRead {
    /// The end that held outside the collection, if the collection has one of its own.
    outer_end: Option<usize>,
}

impl<'a> CdrReader<'a> {
    /// A reader of a body without header, in a known encoding.
    pub fn new(body: &'a [u8], encoding: Encoding) -> Self {
        Self { bytes: body, position: 0, end: body.len(), origin: 0, encoding }
    }

    /// A reader of a payload, whose encapsulation header says how it is encoded.
    pub fn from_payload(payload: &'a [u8]) -> Result<Self, CdrError> {
        let left = payload.len();
        let truncated = CdrError::Truncated {
            offset: 0,
            expected: "an encapsulation header",
            needed: HEADER_SIZE,
            left,
        };
        let header = payload.first_chunk::<HEADER_SIZE>().ok_or(truncated)?;
        let (encoding, padding) = Encoding::parse_header(*header)?;
        let end = left - padding;
        if end < HEADER_SIZE {
            return Err(CdrError::Truncated {
                offset: HEADER_SIZE,
                expected: "the padding that the header announces",
                needed: padding,
                left: left - HEADER_SIZE,
            });
        }
        Ok(Self { bytes: payload, position: HEADER_SIZE, end, origin: HEADER_SIZE, encoding })
    }

    /// How values are read.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The offset of the next byte.
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Checks that the value ends where the bytes end. Up to three bytes more are taken as padding
    /// of writers that do not announce it.
    pub fn finish(self) -> Result<(), CdrError> {
        let left = self.remaining();
        if left >= HEADER_SIZE {
            return Err(CdrError::TrailingBytes { offset: self.position, left });
        }
        Ok(())
    }

    /// Opens a collection whose elements are not primitive: where the encoding has it, reads the
    /// collection's size and confines the reader to that many bytes.
    pub fn begin_delimited(&mut self) -> Result<OpenRead, CdrError> {
        if !self.encoding.delimits_collections() {
            return Ok(OpenRead { outer_end: None });
        }
        let offset = self.position;
        let length = self.read_u32()?;
        let left = self.remaining();
        if length as usize > left {
            return Err(CdrError::Truncated {
                offset,
                expected: "a collection of the size in front of it",
                needed: length as usize,
                left,
            });
        }
        let outer_end = self.end;
        self.end = self.position + length as usize;
        Ok(OpenRead { outer_end: Some(outer_end) })
    }

    /// Closes what [`begin_delimited`](Self::begin_delimited) opened; the collection must have been
    /// read to its end.
    pub fn end_delimited(&mut self, open: OpenRead) -> Result<(), CdrError> {
        let Some(outer_end) = open.outer_end else { return Ok(()) };
        let left = self.remaining();
        if left > 0 {
            return Err(CdrError::SizeMismatch { offset: self.position, left });
        }
        self.end = outer_end;
        Ok(())
    }

    /// Reads a boolean.
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
    pub fn read_length(&mut self, min_size: usize, bound: u32) -> Result<usize, CdrError> {
        let offset = self.position;
        let length = self.read_u32()?;
        let left = self.remaining();
        if length > bound {
            return Err(CdrError::BoundExceeded { offset, bound, found: length as usize });
        }
        // An element that takes no bytes would let four bytes ask for billions of elements.
        if length as usize > left / min_size.max(1) {
            return Err(CdrError::LengthExceedsData { offset, length, left });
        }
        Ok(length as usize)
    }

    /// Reads a string of at most `bound` bytes, without its closing NUL. A length of zero, which
    /// some writers give an empty string, is read as one.
    pub fn read_string(&mut self, bound: u32) -> Result<&'a str, CdrError> {
        let length_at = self.position;
        let length = self.read_length(1, UNBOUNDED)?;
        let offset = self.position;
        let bytes = self.take(1, length, "the characters of a string")?;
        let Some((&last, text)) = bytes.split_last() else { return Ok("") };
        if bound != UNBOUNDED && text.len() > bound as usize {
            return Err(CdrError::BoundExceeded { offset: length_at, bound, found: text.len() });
        }
        let fault = |fault| CdrError::InvalidString { offset, fault };
        if last != 0 {
            return Err(fault(StringFault::NotTerminated));
        }
        if text.contains(&0) {
            return Err(fault(StringFault::InnerNul));
        }
        str::from_utf8(text).map_err(|_| fault(StringFault::NotUtf8))
    }

    /// Reads bytes as they are, without alignment.
    pub fn read_bytes(&mut self, size: usize) -> Result<&'a [u8], CdrError> {
        self.take(1, size, "bytes")
    }

    /// Aligns and takes the next `size` bytes.
    pub(crate) fn take(
        &mut self,
        align: usize,
        size: usize,
        expected: &'static str,
    ) -> Result<&'a [u8], CdrError> {
        let align = align.min(self.encoding.max_align());
        let offset = self.position;
        let padding = self.origin.wrapping_sub(offset) % align;
        let needed = padding.saturating_add(size);
        let left = self.remaining();
        if needed > left {
            return Err(CdrError::Truncated { offset, expected, needed, left });
        }
        self.position = offset + needed;
        Ok(&self.bytes[offset + padding..self.position])
    }
}

/// One method a primitive: align, then the bytes in the encoding's order.
macro_rules! read_number {
    ($($name:ident: $number:ty, $what:literal;)*) => {
        impl CdrReader<'_> {
            $(
                #[doc = concat!("Reads ", $what, ", aligned.")]
                pub fn $name(&mut self) -> Result<$number, CdrError> {
                    const SIZE: usize = size_of::<$number>();
                    let taken = self.take(SIZE, SIZE, $what)?;
                    let mut bytes = [0; SIZE];
                    bytes.copy_from_slice(taken);
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
