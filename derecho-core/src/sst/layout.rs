//! Layout of a row in memory.
//!
//! Owns: the types that may be a column, the position of each column, and the encoding in words.
//! Never does: touch a region.
//!
//! ```text
//!   word  0        1        2               3..
//!        [count  ][load   ][stamp0 stamp1 ][ ...      every column starts at a word, so that no
//!         u64      f64      [u32; 2]                  two columns share an atomic unit
//! ```
//! Elements of an array are packed, and each lies inside one word, so no element is ever torn
//! (I-16). Cells are decoded from words, not cast: every bit pattern that a peer may write is
//! some value.

use core::marker::PhantomData;

use crate::memory::WORD;

/// Number or truth value, which a peer can read in one piece.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a column of a shared state table",
    label = "not plain data",
    note = "columns are integers, floats, bool, or arrays of these; pointers and heap data would \
            mean nothing in another process"
)]
pub trait Scalar: Copy + Send + 'static {
    /// Size in bytes: 1, 2, 4 or 8.
    const BYTES: usize;
    /// Returns the value's bits, in the low end of a word.
    fn to_bits(self) -> u64;
    /// Returns the value with these bits; any bits give some value.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integer_scalars {
    ($($type:ty),*) => {$(
        impl Scalar for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline]
            fn to_bits(self) -> u64 {
                u64::from_le_bytes({
                    let mut bytes = [0; WORD];
                    bytes[..size_of::<$type>()].copy_from_slice(&self.to_le_bytes());
                    bytes
                })
            }
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as $type
            }
        }
    )*};
}
integer_scalars!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Scalar for f32 {
    const BYTES: usize = 4;
    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
}

impl Scalar for f64 {
    const BYTES: usize = 8;
    #[inline]
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

impl Scalar for bool {
    const BYTES: usize = 1;
    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits & 0xff != 0
    }
}

/// Content of a column: a [`Scalar`] or an array of scalars.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a column of a shared state table",
    label = "not plain data",
    note = "columns are integers, floats, bool, or arrays of these; pointers and heap data would \
            mean nothing in another process"
)]
pub trait Cell: Copy + Send + 'static {
    /// Number of words of the cell.
    const WORDS: usize;
    /// Used bits of the last word, at the low end.
    const MASK: u64;
    /// Encodes the cell as words, passed as (index, value) from the first on.
    fn put(self, put: &mut impl FnMut(usize, u64));
    /// Decodes the cell from words.
    fn take(get: &mut impl FnMut(usize) -> u64) -> Self;
}

macro_rules! scalar_cells {
    ($($type:ty),*) => {$(
        impl Cell for $type {
            const WORDS: usize = 1;
            const MASK: u64 = u64::MAX >> (64 - 8 * <$type as Scalar>::BYTES);
            #[inline]
            fn put(self, put: &mut impl FnMut(usize, u64)) {
                put(0, Scalar::to_bits(self));
            }
            #[inline]
            fn take(get: &mut impl FnMut(usize) -> u64) -> Self {
                <$type as Scalar>::from_bits(get(0))
            }
        }
    )*};
}
scalar_cells!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, bool);

const fn per_word<T: Scalar>() -> usize {
    WORD / T::BYTES
}

impl<T: Scalar, const N: usize> Cell for [T; N] {
    const WORDS: usize = N.div_ceil(per_word::<T>());
    const MASK: u64 = u64::MAX;

    fn put(self, put: &mut impl FnMut(usize, u64)) {
        for (index, chunk) in self.chunks(per_word::<T>()).enumerate() {
            let word = chunk.iter().rev().fold(0u64, |word, element| {
                // An 8-byte element is alone in its word; shifting by 64 would overflow.
                word.checked_shl(8 * T::BYTES as u32).unwrap_or(0) | element.to_bits()
            });
            put(index, word);
        }
    }

    fn take(get: &mut impl FnMut(usize) -> u64) -> Self {
        let mut word = 0;
        core::array::from_fn(|index| {
            let place = index % per_word::<T>();
            if place == 0 {
                word = get(index / per_word::<T>());
            }
            T::from_bits(word >> (8 * T::BYTES * place))
        })
    }
}

/// A row of a shared state table. Declared with [`row!`](crate::row).
pub trait TableRow: Copy + Send + 'static {
    /// Number of words of the row.
    const WORDS: usize;
    /// Hash of the columns' names and types: nodes with different rows detect this before they
    /// misread a row.
    const FINGERPRINT: u64;
    /// Encodes the row as words.
    fn put(self, put: &mut impl FnMut(usize, u64));
    /// Decodes the row from words.
    fn take(get: &mut impl FnMut(usize) -> u64) -> Self;
}

/// Position and type of a column in a row.
pub struct Column<R, C> {
    word: usize,
    bit: u32,
    _row: PhantomData<fn() -> (R, C)>,
}

impl<R, C> Clone for Column<R, C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R, C> Copy for Column<R, C> {}

impl<R: TableRow, C: Cell> Column<R, C> {
    /// Creates a column that starts at this word of the row. Used by [`row!`](crate::row).
    pub const fn at_word(word: usize) -> Self {
        assert!(word + C::WORDS <= R::WORDS);
        Column { word, bit: 0, _row: PhantomData }
    }

    /// First word of the column in the row.
    pub fn first_word(self) -> usize {
        self.word
    }

    /// Number of words of the column.
    pub fn words(self) -> usize {
        C::WORDS
    }

    pub(super) fn put(self, value: C, row: &mut [u64]) {
        if self.bit == 0 && C::WORDS != 1 {
            value.put(&mut |index, word| row[self.word + index] = word);
            return;
        }
        // A scalar may be one element among several in its word: the others stay unchanged.
        value.put(&mut |_, bits| {
            let mask = C::MASK << self.bit;
            let word = &mut row[self.word];
            *word = (*word & !mask) | ((bits << self.bit) & mask);
        });
    }

    #[inline]
    pub(super) fn take(self, mut get: impl FnMut(usize) -> u64) -> C {
        C::take(&mut |index| get(self.word + index) >> self.bit)
    }
}

impl<R: TableRow, T: Scalar + Cell, const N: usize> Column<R, [T; N]> {
    /// Returns the column of one element of the array, which can be set, pushed and read by itself.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn at(self, index: usize) -> Column<R, T> {
        assert!(index < N, "element {index} of a column of {N}");
        let place = index % per_word::<T>();
        Column {
            word: self.word + index / per_word::<T>(),
            bit: (8 * T::BYTES * place) as u32,
            _row: PhantomData,
        }
    }
}

/// Returns the number of words before the given column, from the widths of all columns. Used
/// by [`row!`](crate::row).
pub const fn prefix(widths: &[usize], column: usize) -> usize {
    let mut sum = 0;
    let mut index = 0;
    while index < column {
        sum += widths[index];
        index += 1;
    }
    sum
}

/// Returns the FNV-1a hash over the columns' names and types. Used by [`row!`](crate::row).
pub const fn fingerprint(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut part = 0;
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            index += 1;
        }
        // A separator that no name contains.
        hash = (hash ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3);
        part += 1;
    }
    hash
}

/// Declares the row of a shared state table: a struct of plain columns.
///
/// ```
/// derecho_core::row! {
///     /// What each node says of itself.
///     pub struct Status {
///         /// Steps done.
///         pub step: u64,
///         /// When the last two were done.
///         pub stamps: [u64; 2],
///         /// Share of the processor in use.
///         pub load: f64,
///         /// Whether it takes part.
///         pub up: bool,
///     }
/// }
/// let row = Status { step: 1, stamps: [2, 3], load: 0.5, up: true };
/// assert_eq!(Status::stamps.first_word(), 1);
/// # let _ = row;
/// ```
///
/// The columns are named by constants: `table.get(rank, Status::load)`. The compiler refuses a
/// column that is not plain data:
///
/// ```compile_fail
/// derecho_core::row! {
///     /// A list lives on the heap of one process.
///     pub struct Wrong { /// Nonsense elsewhere.
///         pub names: std::vec::Vec<u8> }
/// }
/// ```
/// ```compile_fail
/// derecho_core::row! {
///     /// So does whatever a pointer points to.
///     pub struct Wrong { /// Nonsense elsewhere.
///         pub next: *const u64 }
/// }
/// ```
#[macro_export]
macro_rules! row {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident {
            $( $(#[$column_attribute:meta])* $column_visible:vis $column:ident : $type:ty ),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        $visible struct $name {
            $( $(#[$column_attribute])* $column_visible $column: $type ),+
        }

        #[allow(non_upper_case_globals)]
        const _: () = {
            #[allow(non_camel_case_types)]
            enum ColumnIndex { $($column),+ }
            const WIDTHS: &[usize] = &[$(<$type as $crate::sst::Cell>::WORDS),+];

            impl $name {
                $(
                    $(#[$column_attribute])*
                    $column_visible const $column: $crate::sst::Column<$name, $type> =
                        $crate::sst::Column::at_word(
                            $crate::sst::prefix(WIDTHS, ColumnIndex::$column as usize),
                        );
                )+
            }

            impl $crate::sst::TableRow for $name {
                const WORDS: usize = $crate::sst::prefix(WIDTHS, WIDTHS.len());
                const FINGERPRINT: u64 = $crate::sst::fingerprint(&[
                    $(stringify!($column), stringify!($type)),+
                ]);
                fn put(self, put: &mut impl FnMut(usize, u64)) {
                    $(
                        let start = $crate::sst::prefix(WIDTHS, ColumnIndex::$column as usize);
                        $crate::sst::Cell::put(
                            self.$column,
                            &mut |index, word| put(start + index, word),
                        );
                    )+
                }
                fn take(get: &mut impl FnMut(usize) -> u64) -> Self {
                    $name { $(
                        $column: {
                            let start = $crate::sst::prefix(WIDTHS, ColumnIndex::$column as usize);
                            $crate::sst::Cell::take(&mut |index| get(start + index))
                        }
                    ),+ }
                }
            }
        };
    };
}
