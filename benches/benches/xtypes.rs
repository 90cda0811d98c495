//! Type objects, assignability, and samples of run-time types beside derived ones.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use idl_cdr::{DdsType, Encoding, from_cdr, to_cdr};
use idl_xtypes::{DynamicData, DynamicType, ObjectKind, TypeConsistency};

/// Defines a struct with a member of each name and type.
macro_rules! wide {
    ($($name:ident { $($member:ident: $of:ty),* $(,)? })*) => {
        $(
            #[derive(DdsType, Clone, Debug)]
            #[dds(crate = "idl_cdr", extensibility = "appendable")]
            struct $name { $($member: $of),* }
        )*
    };
}

wide! {
    Ten {
        a: i32, b: f64, c: String, d: u8, e: bool, f: Vec<f32>, g: [u16; 4], h: i64, i: u32, j: char,
    }
    // A hundred members, in ten structs.
    Hundred {
        a: Ten, b: Ten, c: Ten, d: Ten, e: Ten, f: Ten, g: Ten, h: Ten, i: Ten, j: Ten,
    }
    // A hundred members in one struct.
    Flat {
        a0: i32, a1: f64, a2: String, a3: u8, a4: bool, a5: Vec<f32>, a6: [u16; 4], a7: i64, a8: u32, a9: char,
        b0: i32, b1: f64, b2: String, b3: u8, b4: bool, b5: Vec<f32>, b6: [u16; 4], b7: i64, b8: u32, b9: char,
        c0: i32, c1: f64, c2: String, c3: u8, c4: bool, c5: Vec<f32>, c6: [u16; 4], c7: i64, c8: u32, c9: char,
        d0: i32, d1: f64, d2: String, d3: u8, d4: bool, d5: Vec<f32>, d6: [u16; 4], d7: i64, d8: u32, d9: char,
        e0: i32, e1: f64, e2: String, e3: u8, e4: bool, e5: Vec<f32>, e6: [u16; 4], e7: i64, e8: u32, e9: char,
        f0: i32, f1: f64, f2: String, f3: u8, f4: bool, f5: Vec<f32>, f6: [u16; 4], f7: i64, f8: u32, f9: char,
        g0: i32, g1: f64, g2: String, g3: u8, g4: bool, g5: Vec<f32>, g6: [u16; 4], g7: i64, g8: u32, g9: char,
        h0: i32, h1: f64, h2: String, h3: u8, h4: bool, h5: Vec<f32>, h6: [u16; 4], h7: i64, h8: u32, h9: char,
        i0: i32, i1: f64, i2: String, i3: u8, i4: bool, i5: Vec<f32>, i6: [u16; 4], i7: i64, i8: u32, i9: char,
        j0: i32, j1: f64, j2: String, j3: u8, j4: bool, j5: Vec<f32>, j6: [u16; 4], j7: i64, j8: u32, j9: char,
    }
}

fn types(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("types of run time");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(800));
    let of = DynamicType::of::<Flat>();
    group.bench_function("a type of 100 members, from a derived one", |bencher| {
        bencher.iter(DynamicType::of::<Flat>);
    });
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        group.bench_function(format!("its type object and hash: {kind:?}"), |bencher| {
            bencher.iter(|| black_box(&of).objects(kind));
        });
    }
    let told = of.objects(ObjectKind::Complete);
    group.bench_function("from a peer's type object", |bencher| {
        bencher.iter(|| DynamicType::from_objects(black_box(&told)).expect("it was just made"));
    });
    let peers = DynamicType::from_objects(&told).expect("it was just made");
    let consistency = TypeConsistency::default();
    group.bench_function("assignable?", |bencher| {
        bencher.iter(|| consistency.check(black_box(&of), black_box(&peers)).is_ok());
    });
    let value = Hundred::default_value();
    let payload = to_cdr(&value).expect("nothing in it breaks a bound");
    let of = DynamicType::of::<Hundred>();
    let data = DynamicData::from_cdr(&of, &payload).expect("it was just written");
    group.bench_function("100 members: derived write", |bencher| {
        bencher.iter(|| to_cdr(black_box(&value)));
    });
    group.bench_function("100 members: dynamic write", |bencher| {
        bencher.iter(|| black_box(&data).to_cdr(Encoding::default()));
    });
    group.bench_function("100 members: derived read", |bencher| {
        bencher.iter(|| from_cdr::<Hundred>(black_box(&payload)));
    });
    group.bench_function("100 members: dynamic read", |bencher| {
        bencher.iter(|| DynamicData::from_cdr(black_box(&of), black_box(&payload)));
    });
    group.finish();
}

criterion_group!(benches, types);
criterion_main!(benches);
