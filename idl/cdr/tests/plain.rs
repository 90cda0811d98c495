//! Types that are sent as they lie in memory, and round trips of their bytes.

use idl_cdr::{DdsType, from_plain_bytes, plain_bytes, plain_ref};

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Position {
    x: f64,
    y: f64,
}

/// A struct with padding after `id` and at the end, wherever the compiler puts its fields.
#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
#[repr(C)]
struct Track {
    id: u8,
    positions: [[Position; 2]; 2],
    quality: u16,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "Track")]
#[repr(C)]
#[allow(dead_code)]
struct TrackInAnotherOrder {
    positions: [[Position; 2]; 2],
    id: u8,
    quality: u16,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
#[allow(dead_code)]
struct WithBool {
    position: Position,
    valid: bool,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
#[allow(dead_code)]
struct Deep {
    inner: [WithBool; 1],
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
#[allow(dead_code)]
enum One {
    Only,
}

const TRACK: Track = Track {
    id: 3,
    positions: [[Position { x: 1.0, y: 2.0 }; 2], [Position { x: f64::MAX, y: -0.0 }; 2]],
    quality: 9,
};

#[test]
fn only_numeric_types_are_plain() {
    assert!(u8::LAYOUT.is_some() && f64::LAYOUT.is_some() && <[[i16; 2]; 3]>::LAYOUT.is_some());
    assert!(Position::LAYOUT.is_some() && Track::LAYOUT.is_some());
    assert!(bool::LAYOUT.is_none() && String::LAYOUT.is_none() && Vec::<u8>::LAYOUT.is_none());
    assert!(One::LAYOUT.is_none() && WithBool::LAYOUT.is_none() && Deep::LAYOUT.is_none());
    assert!(<[bool; 2]>::LAYOUT.is_none());
}

#[test]
fn plain_layout_matches_compiler_layout() {
    let layout = Track::LAYOUT.unwrap();
    assert_eq!((layout.size(), layout.align()), (size_of::<Track>(), align_of::<Track>()));
    assert_ne!(layout.hash(), TrackInAnotherOrder::LAYOUT.unwrap().hash());
    assert_ne!(u32::LAYOUT.unwrap().hash(), f32::LAYOUT.unwrap().hash());
}

#[test]
fn plain_bytes_survive_round_trip() {
    // A distinct number for every byte; the bytes of padding are never read.
    let bytes: Vec<u8> = (0..size_of::<Track>() as u8).collect();
    let track: Track = from_plain_bytes(&bytes).unwrap();
    assert_eq!(track.id, 0);
    assert_eq!(track.quality, u16::from_ne_bytes([72, 73]));
    assert_eq!(plain_bytes(&TRACK).unwrap().len(), size_of::<Track>());

    let position = TRACK.positions[1][0];
    let bytes = plain_bytes(&position).unwrap();
    // SAFETY: Position is two f64 of 8 bytes each in 16 bytes, so it has no padding.
    let bytes: Vec<u8> = bytes.iter().map(|byte| unsafe { byte.assume_init() }).collect();
    assert_eq!(from_plain_bytes::<Position>(&bytes).unwrap(), position);
}

#[test]
fn plain_access_rejects_wrong_size_type_or_alignment() {
    let bytes = [0_u64; 3].map(u64::to_ne_bytes).concat();
    assert!(from_plain_bytes::<Position>(&bytes[..15]).is_none());
    assert!(from_plain_bytes::<Position>(&bytes[..17]).is_none());
    assert!(from_plain_bytes::<Position>(&bytes[1..17]).is_some());
    assert!(from_plain_bytes::<bool>(&[1]).is_none());
    assert!(plain_bytes(&true).is_none());

    let aligned = bytes.as_ptr().align_offset(align_of::<Position>());
    assert!(plain_ref::<Position>(&bytes[aligned..aligned + 16]).is_some());
    assert!(plain_ref::<Position>(&bytes[aligned + 1..aligned + 17]).is_none());
    assert!(plain_ref::<bool>(&[1]).is_none());
}

/// A struct with padding in its members, between them, and at the end, if the compiler leaves any.
#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Convoy {
    count: u8,
    nothing: [u64; 0],
    tracks: [Track; 2],
    speed: u16,
}

/// Returns the offsets of the bytes that clearing changes.
fn cleared<T: DdsType>() -> Vec<usize> {
    let mut bytes = vec![0xff; size_of::<T>()];
    T::LAYOUT.expect("the type is plain").clear_padding(&mut bytes);
    assert!(bytes.iter().all(|byte| matches!(byte, 0 | 0xff)));
    (0..bytes.len()).filter(|place| bytes[*place] == 0).collect()
}

#[test]
fn only_padding_is_cleared() {
    let of_track: Vec<usize> = (1..8).chain(74..80).collect();
    assert_eq!(cleared::<Track>(), of_track);
    assert_eq!(
        cleared::<[Track; 2]>(),
        [of_track.clone(), of_track.iter().map(|at| at + 80).collect()].concat()
    );
    let convoy = cleared::<Convoy>();
    assert_eq!(convoy.len(), size_of::<Convoy>() - 3 - 2 * (80 - of_track.len()));
    let tracks = std::mem::offset_of!(Convoy, tracks);
    assert!(of_track.iter().all(|at| convoy.contains(&(tracks + at))));
    for member in [std::mem::offset_of!(Convoy, count), std::mem::offset_of!(Convoy, speed), tracks]
    {
        assert!(!convoy.contains(&member));
    }
}

#[test]
fn type_without_padding_has_no_bytes_to_clear() {
    assert!(
        !Position::LAYOUT.unwrap().has_padding() && !<[[u8; 3]; 5]>::LAYOUT.unwrap().has_padding()
    );
    assert!(Track::LAYOUT.unwrap().has_padding() && <[Track; 1]>::LAYOUT.unwrap().has_padding());
    assert_eq!(cleared::<Position>(), []);
}
