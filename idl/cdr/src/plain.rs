//! Types whose values may be copied byte by byte between processes.
//!
//! Owns the proof that a type is plain ([`PlainLayout`]) and the three conversions that rest on it.
//! Never looks at the meaning of the bytes. All `unsafe` code of this crate rests on the contract
//! of [`PlainLayout::new`].

use crate::{DdsType, Fingerprint};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Function that overwrites the padding in the bytes of a value with zeros.
type ClearPadding = fn(&mut [u8]);

/// Proof that `T` is plain, with the memory layout of its values.
///
/// A value of this type exists only for types of which every bit pattern is valid. The type
/// parameter prevents the use of one type's proof for another type.
pub struct PlainLayout<T> {
    size: usize,
    align: usize,
    hash: u64,
    /// Clears the padding in the bytes of a value; `None` if there is none.
    clear: Option<ClearPadding>,
    proof_for: PhantomData<fn(T) -> T>,
}

impl<T> PlainLayout<T> {
    /// Claims that `T` is plain. `contents` is a hash of the members of `T` and their offsets
    /// ([`PlainMembers`]); size and alignment are added to it.
    ///
    /// # Safety
    /// Every sequence of `size_of::<T>()` initialised bytes must be a valid value of `T`, padding
    /// apart: no booleans, enums, references, pointers or other types with forbidden bit patterns,
    /// in any field at any depth. `T` must have no interior mutability.
    pub const unsafe fn new(contents: u64) -> Self {
        let size = size_of::<T>();
        let align = align_of::<T>();
        let hash = Fingerprint::new("plain")
            .number(size as u64)
            .number(align as u64)
            .number(contents)
            .finish();
        Self { size, align, hash, clear: None, proof_for: PhantomData }
    }

    /// Returns the layout of the same type with padding. `clear` receives the bytes of a value and
    /// overwrites its padding with zeros.
    #[must_use]
    pub const fn with_padding(self, clear: fn(&mut [u8])) -> Self {
        Self { clear: Some(clear), ..self }
    }

    /// Whether a value has bytes that belong to no member.
    pub const fn has_padding(&self) -> bool {
        self.clear.is_some()
    }

    /// Overwrites the padding in the bytes of a value with zeros, so that no earlier memory content
    /// leaks. Does nothing for types without padding.
    #[inline(always)]
    pub fn clear_padding(self, bytes: &mut [u8]) {
        if let Some(clear) = self.clear {
            clear(bytes);
        }
    }

    /// Returns the size of a value in bytes.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Returns the alignment of a value in bytes.
    pub const fn align(&self) -> usize {
        self.align
    }

    /// Returns a hash of size, alignment, byte order, and of every member's offset and layout. Two
    /// processes with the same fingerprint and the same hash have the same layout of the type.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the bytes of a value for copying. They are not `u8` because the padding between
    /// members is uninitialised.
    #[inline]
    pub fn bytes_of(self, value: &T) -> &[MaybeUninit<u8>] {
        // SAFETY: the reference covers size_of::<T>() bytes, which `self.size` is, for its
        // lifetime; they are not written meanwhile because a plain type has no interior mutability.
        // Any byte, initialised or not, is a valid MaybeUninit<u8>, whose alignment is 1.
        unsafe { std::slice::from_raw_parts((&raw const *value).cast(), self.size) }
    }

    /// Reads a value from the bytes of another, if the size matches. The bytes need no alignment.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> Option<T> {
        if bytes.len() != self.size {
            return None;
        }
        // SAFETY: size_of::<T>() initialised bytes can be read from the slice, read_unaligned needs
        // no alignment, and the layout proves that any bytes are a valid T.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    /// Returns a reference to the value in these bytes, without a copy, if size and
    /// alignment match.
    #[inline]
    pub fn find(self, bytes: &[u8]) -> Option<&T> {
        let start = bytes.as_ptr().cast::<T>();
        if bytes.len() != self.size || !start.is_aligned() {
            return None;
        }
        // SAFETY: the slice has size_of::<T>() initialised bytes at an address aligned for T, and
        // the result borrows the slice; the layout proves that any bytes are a valid T.
        Some(unsafe { &*start })
    }
}

impl<T> Clone for PlainLayout<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PlainLayout<T> {}

impl<T> PartialEq for PlainLayout<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.size, self.align, self.hash) == (other.size, other.align, other.hash)
    }
}

impl<T> Eq for PlainLayout<T> {}

impl<T> fmt::Debug for PlainLayout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainLayout")
            .field("size", &self.size)
            .field("align", &self.align)
            .field("hash", &format_args!("{:#018x}", self.hash))
            .finish()
    }
}

/// Collector of a struct's members that determines whether all of them are plain.
#[derive(Clone, Copy, Debug)]
pub struct PlainMembers {
    hash: Option<Fingerprint>,
}

impl PlainMembers {
    /// Starts with a struct without members.
    pub const fn new() -> Self {
        Self { hash: Some(Fingerprint::new("members")) }
    }

    /// Adds a member of type `M` at `offset`.
    #[must_use]
    pub const fn member<M: DdsType>(self, offset: usize) -> Self {
        let hash = match (self.hash, M::LAYOUT) {
            (Some(hash), Some(layout)) => Some(hash.number(offset as u64).number(layout.hash())),
            _ => None,
        };
        Self { hash }
    }

    /// Returns a hash of the members' offsets and layouts, if all of them are plain.
    pub const fn hash(&self) -> Option<u64> {
        match self.hash {
            Some(hash) => Some(hash.finish()),
            None => None,
        }
    }
}

impl Default for PlainMembers {
    fn default() -> Self {
        Self::new()
    }
}

/// A member of a plain struct: the position of its bytes, and the function that clears its padding.
#[derive(Clone, Copy, Debug)]
pub struct PlainPart {
    start: usize,
    end: usize,
    clear: Option<ClearPadding>,
}

impl PlainPart {
    /// Describes a member of type `M` at `offset`.
    pub const fn of<M: DdsType>(offset: usize) -> Self {
        let clear = match M::LAYOUT {
            Some(layout) => layout.clear,
            None => None,
        };
        Self { start: offset, end: offset + size_of::<M>(), clear }
    }
}

/// Returns the members of a struct in the order of their offsets.
pub const fn parts_in_order<const N: usize>(mut parts: [PlainPart; N]) -> [PlainPart; N] {
    let mut sorted = 1;
    while sorted < N {
        let mut place = sorted;
        while place > 0 && parts[place].start < parts[place - 1].start {
            let part = parts[place];
            parts[place] = parts[place - 1];
            parts[place - 1] = part;
            place -= 1;
        }
        sorted += 1;
    }
    parts
}

/// Whether a struct of this size has bytes that belong to no member at any depth.
pub const fn have_padding(parts: &[PlainPart], size: usize) -> bool {
    let (mut place, mut covered) = (0, 0);
    while place < parts.len() {
        if parts[place].clear.is_some() {
            return true;
        }
        covered += parts[place].end - parts[place].start;
        place += 1;
    }
    covered < size
}

/// Overwrites with zeros all bytes that belong to none of these members, which are in the order of
/// their offsets.
#[inline(always)]
pub fn clear_between(parts: &[PlainPart], bytes: &mut [u8]) {
    let mut end = 0;
    for part in parts {
        if part.start > end {
            bytes[end..part.start].fill(0);
        }
        if let Some(clear) = part.clear {
            clear(&mut bytes[part.start..part.end]);
        }
        end = end.max(part.end);
    }
    bytes[end..].fill(0);
}

/// Clears the padding of adjacent values.
pub(crate) fn clear_each<T: DdsType>(bytes: &mut [u8]) {
    if let Some(layout) = T::LAYOUT.filter(PlainLayout::has_padding) {
        bytes.chunks_exact_mut(layout.size).for_each(|value| layout.clear_padding(value));
    }
}

/// Returns the bytes of a value, if its type is plain: [`PlainLayout::bytes_of`].
pub fn plain_bytes<T: DdsType>(value: &T) -> Option<&[MaybeUninit<u8>]> {
    T::LAYOUT.map(|layout| layout.bytes_of(value))
}

/// Reads a value from the bytes of another, if its type is plain: [`PlainLayout::read`].
pub fn from_plain_bytes<T: DdsType>(bytes: &[u8]) -> Option<T> {
    T::LAYOUT?.read(bytes)
}

/// Reads adjacent values from their bytes, if the type is plain. An incomplete value at the end is
/// left out. All bytes are copied in one call, whatever their alignment.
pub(crate) fn plain_row<T: DdsType>(bytes: &[u8]) -> Option<Vec<T>> {
    let layout = T::LAYOUT?;
    let count = bytes.len().checked_div(layout.size)?;
    let mut row = Vec::<T>::with_capacity(count);
    // SAFETY: the vector has room for `count` values of size_of::<T>() bytes each, which is
    // `layout.size`, and the slice has at least that many bytes. The two do not overlap because the
    // vector is new. After the copy all of these values are initialised, and the layout proves that
    // any bytes are valid values.
    unsafe {
        let room = row.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, count * layout.size);
        row.set_len(count);
    }
    Some(row)
}

/// Returns the value in these bytes, if its type is plain: [`PlainLayout::find`].
pub fn plain_ref<T: DdsType>(bytes: &[u8]) -> Option<&T> {
    T::LAYOUT?.find(bytes)
}
