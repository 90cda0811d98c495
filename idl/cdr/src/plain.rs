//! Types whose values may be copied byte by byte between processes.
//!
//! Owns the proof that a type is plain ([`PlainLayout`]) and the three conversions that rest on
//! it. Never looks at what the bytes mean. All `unsafe` code of this crate rests on the contract of
//! [`PlainLayout::new`].

use crate::{DdsType, Fingerprint};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The proof that `T` is plain, and how its values lie in memory.
///
/// A value of this type exists only for types of which every bit pattern is valid. It names the
/// type, so that the proof for one type cannot be shown for another.
pub struct PlainLayout<T> {
    size: usize,
    align: usize,
    hash: u64,
    proof_for: PhantomData<fn(T) -> T>,
}

impl<T> PlainLayout<T> {
    /// Claims that `T` is plain. `contents` is a hash of what `T` is made of and where it lies
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
        Self { size, align, hash, proof_for: PhantomData }
    }

    /// The size of a value in bytes.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The alignment of a value in bytes.
    pub const fn align(&self) -> usize {
        self.align
    }

    /// A hash of size, alignment, byte order, and of every member's offset and layout. Two
    /// processes with the same fingerprint and the same hash lay the type out alike.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The bytes of a value, to be copied out. They are not `u8` because the padding between
    /// members has no value.
    #[inline]
    pub fn bytes_of(self, value: &T) -> &[MaybeUninit<u8>] {
        // SAFETY: the reference covers size_of::<T>() bytes, which `self.size` is, for its lifetime;
        // they are not written meanwhile because a plain type has no interior mutability. Any byte,
        // initialised or not, is a valid MaybeUninit<u8>, whose alignment is 1.
        unsafe { std::slice::from_raw_parts((&raw const *value).cast(), self.size) }
    }

    /// A value from the bytes of another, if the size is right. The bytes need no alignment.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> Option<T> {
        if bytes.len() != self.size {
            return None;
        }
        // SAFETY: size_of::<T>() initialised bytes can be read from the slice, read_unaligned asks for
        // no alignment, and the layout proves that whatever they are is a valid T.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    /// The value that lies in these bytes, without a copy, if size and alignment are right.
    #[inline]
    pub fn find(self, bytes: &[u8]) -> Option<&T> {
        let start = bytes.as_ptr().cast::<T>();
        if bytes.len() != self.size || !start.is_aligned() {
            return None;
        }
        // SAFETY: the slice has size_of::<T>() initialised bytes at an address aligned for T, which the
        // result borrows; the layout proves that whatever they are is a valid T.
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

/// The members of a struct, gathered to see whether all of them are plain.
#[derive(Clone, Copy, Debug)]
pub struct PlainMembers {
    hash: Option<Fingerprint>,
}

impl PlainMembers {
    /// A struct without members so far.
    pub const fn new() -> Self {
        Self { hash: Some(Fingerprint::new("members")) }
    }

    /// Adds a member of type `M` that lies at `offset`.
    #[must_use]
    pub const fn member<M: DdsType>(self, offset: usize) -> Self {
        let hash = match (self.hash, M::LAYOUT) {
            (Some(hash), Some(layout)) => Some(hash.number(offset as u64).number(layout.hash())),
            _ => None,
        };
        Self { hash }
    }

    /// A hash of the members' offsets and layouts, if all of them are plain.
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

/// The bytes of a value, if its type is plain: [`PlainLayout::bytes_of`].
pub fn plain_bytes<T: DdsType>(value: &T) -> Option<&[MaybeUninit<u8>]> {
    T::LAYOUT.map(|layout| layout.bytes_of(value))
}

/// A value from the bytes of another, if its type is plain: [`PlainLayout::read`].
pub fn from_plain_bytes<T: DdsType>(bytes: &[u8]) -> Option<T> {
    T::LAYOUT?.read(bytes)
}

/// The values of which these are the bytes, side by side, if the type is plain; what is left over at the end is
/// left out. Copied in one go, whatever their alignment.
pub(crate) fn plain_row<T: DdsType>(bytes: &[u8]) -> Option<Vec<T>> {
    let layout = T::LAYOUT?;
    let count = bytes.len().checked_div(layout.size)?;
    let mut row = Vec::<T>::with_capacity(count);
    // SAFETY: the vector has room for `count` values of size_of::<T>() bytes each, which `layout.size` is, and
    // so many bytes are in the slice; the two do not overlap because the room is new. Afterwards all of these
    // values are initialised, and the layout proves that whatever the bytes are they are valid values.
    unsafe {
        let room = row.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, count * layout.size);
        row.set_len(count);
    }
    Some(row)
}

/// The value that lies in these bytes, if its type is plain: [`PlainLayout::find`].
pub fn plain_ref<T: DdsType>(bytes: &[u8]) -> Option<&T> {
    T::LAYOUT?.find(bytes)
}
