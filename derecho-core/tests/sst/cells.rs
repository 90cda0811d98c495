//! A value put into a cell is read back unchanged, in the own row and in replicas.

use derecho_core::ids::Rank;
use derecho_core::link::Sharing;
use derecho_core::row;
use derecho_core::sst::Sst;
use proptest::prelude::*;

use crate::rig::{Rig, no_setup};

row! {
    /// A column of every kind.
    pub(crate) struct Kinds {
        pub(crate) a: u8,
        pub(crate) b: i16,
        pub(crate) c: u32,
        pub(crate) d: i64,
        pub(crate) e: f32,
        pub(crate) f: f64,
        pub(crate) g: bool,
        pub(crate) bytes: [u8; 11],
        pub(crate) shorts: [i16; 5],
        pub(crate) words: [u32; 3],
        pub(crate) longs: [i64; 2],
        pub(crate) truths: [bool; 9],
        pub(crate) floats: [f64; 2],
        pub(crate) last: u16,
    }
}

impl Kinds {
    pub(crate) const ZERO: Kinds = Kinds {
        a: 0,
        b: 0,
        c: 0,
        d: 0,
        e: 0.0,
        f: 0.0,
        g: false,
        bytes: [0; 11],
        shorts: [0; 5],
        words: [0; 3],
        longs: [0; 2],
        truths: [false; 9],
        floats: [0.0; 2],
        last: 0,
    };
}

fn any_row() -> impl Strategy<Value = Kinds> {
    let scalars = any::<(u8, i16, u32, i64, f32, f64, bool, u16)>();
    let arrays = any::<([u8; 11], [i16; 5], [u32; 3], [i64; 2], [bool; 9], [f64; 2])>();
    (scalars, arrays).prop_map(|(s, r)| Kinds {
        a: s.0,
        b: s.1,
        c: s.2,
        d: s.3,
        e: s.4,
        f: s.5,
        g: s.6,
        bytes: r.0,
        shorts: r.1,
        words: r.2,
        longs: r.3,
        truths: r.4,
        floats: r.5,
        last: s.7,
    })
}

/// Equality by text, so that a float that is not a number equals itself.
fn same(a: Kinds, b: Kinds) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

proptest! {
    #[test]
    fn row_is_read_back_as_written(row in any_row(), shared in any::<bool>()) {
        let sharing = if shared { Sharing::Shared } else { Sharing::Copied };
        let mut rig = Rig::started(2, sharing, |_| Kinds::ZERO, no_setup);
        rig.with(0, |table| {
            table.set(Kinds::a, row.a);
            table.set(Kinds::b, row.b);
            table.set(Kinds::c, row.c);
            table.set(Kinds::d, row.d);
            table.set(Kinds::e, row.e);
            table.set(Kinds::f, row.f);
            table.set(Kinds::g, row.g);
            table.set(Kinds::bytes, row.bytes);
            table.set(Kinds::shorts, row.shorts);
            table.set(Kinds::words, row.words);
            table.set(Kinds::longs, row.longs);
            table.set(Kinds::truths, row.truths);
            table.set(Kinds::floats, row.floats);
            table.set(Kinds::last, row.last);
            table.push_row();
        });
        rig.deliver_all();
        prop_assert!(same(rig.table(0).row(Rank(0)), row));
        prop_assert!(same(rig.table(1).row(Rank(0)), row));
        let table = rig.table(1);
        prop_assert_eq!(table.get(Rank(0), Kinds::bytes), row.bytes);
        prop_assert_eq!(table.get(Rank(0), Kinds::d), row.d);
        prop_assert_eq!(table.get(Rank(0), Kinds::f).to_bits(), row.f.to_bits());
        prop_assert_eq!(table.get(Rank(0), Kinds::last), row.last);
    }

    #[test]
    fn initial_rows_are_seen_when_the_table_starts(a in any_row(), b in any_row()) {
        let rig = Rig::started(2, Sharing::Copied, |i| [a, b][i], no_setup);
        prop_assert!(same(rig.table(1).row(Rank(0)), a));
        prop_assert!(same(rig.table(0).row(Rank(1)), b));
    }

    #[test]
    fn setting_one_element_leaves_other_elements_unchanged(
        row in any_row(),
        byte in (0usize..11, any::<u8>()),
        short in (0usize..5, any::<i16>()),
        truth in (0usize..9, any::<bool>()),
        long in (0usize..2, any::<i64>()),
    ) {
        let mut rig = Rig::started(2, Sharing::Copied, |_| row, no_setup);
        rig.with(0, |table| {
            table.publish(Kinds::bytes.at(byte.0), byte.1);
            table.publish(Kinds::shorts.at(short.0), short.1);
            table.publish(Kinds::truths.at(truth.0), truth.1);
            table.publish(Kinds::longs.at(long.0), long.1);
        });
        rig.deliver_all();
        let mut expected = row;
        expected.bytes[byte.0] = byte.1;
        expected.shorts[short.0] = short.1;
        expected.truths[truth.0] = truth.1;
        expected.longs[long.0] = long.1;
        prop_assert!(same(rig.table(0).row(Rank(0)), expected));
        prop_assert!(same(rig.table(1).row(Rank(0)), expected));
        prop_assert_eq!(rig.table(1).get(Rank(0), Kinds::shorts.at(short.0)), short.1);
        prop_assert_eq!(rig.table(1).get(Rank(0), Kinds::truths.at(truth.0)), truth.1);
    }
}

#[test]
fn a_region_has_a_line_for_the_fingerprint_and_whole_lines_for_the_row() {
    row! {
        struct One { a: u64 }
    }
    row! {
        struct Nine { a: [u64; 9] }
    }
    assert_eq!(Sst::<One>::REGION_WORDS, 16);
    assert_eq!(Sst::<Nine>::REGION_WORDS, 24);
}

#[test]
#[should_panic(expected = "element 3 of a column of 3")]
fn access_past_end_of_column_panics() {
    Kinds::words.at(3);
}
