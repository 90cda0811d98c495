//! The generated Rust compiles, has the names of the IDL, and keeps its bounds.

use generated::nav::detail::{Position, Track};
use generated::nav::{Aircraft, Basics, FlightPhase};
use generated::other::Place;
use idl_cdr::{DdsType, from_cdr, key_to_cdr, to_cdr};

/// The generated code as a user includes it.
mod generated {
    #![deny(missing_docs)]
    #![allow(unreachable_pub)]
    include!("golden/nav.rs");
}

fn aircraft() -> Aircraft {
    let position: Place = Position { latitude: 47.5, longitude: 9.5, altitude: 400.0 };
    Aircraft {
        aircraft_id: 7,
        r#type: "C172".to_owned(),
        remark: "a remark without bound".to_owned(),
        string: String::new(),
        position: position.clone(),
        tracks: vec![Track {
            phase: FlightPhase::TakeOff,
            velocity: [1.0, 2.0, 3.0],
            call_sign: "SQ1".to_owned(),
        }],
        payload: vec![1, 2, 3],
        words: vec![vec!["abc".to_owned(); 5], vec![]],
        grid: [[1, 2, 3], [4, 5, 6]],
        self_: 8,
        single: 9,
        names: ["a".to_owned(), "b".to_owned()],
        formation: vec!["SQ2".to_owned()],
        phases: [FlightPhase::Taxi, FlightPhase::Cruise],
        places: [position.clone(), position],
    }
}

#[test]
fn generated_types_have_their_idl_names_and_come_back() {
    assert_eq!(Aircraft::TYPE_NAME, "Nav::Aircraft");
    assert_eq!(Position::TYPE_NAME, "Nav::Detail::Position");
    assert!(Position::LAYOUT.is_some() && Basics::LAYOUT.is_none());
    let value = aircraft();
    assert_eq!(from_cdr::<Aircraft>(&to_cdr(&value).unwrap()).unwrap(), value);
    assert_eq!(key_to_cdr(&value).unwrap(), [0, 0, 0, 7, 0, 0, 0, 5, b'C', b'1', b'7', b'2', 0]);
}

#[test]
fn bounds_of_the_idl_are_kept() {
    let long = "123456789".to_owned();
    for broken in [
        Aircraft { r#type: long.clone(), ..aircraft() },
        Aircraft { payload: vec![0; 17], ..aircraft() },
        Aircraft { words: vec![vec![]; 3], ..aircraft() },
        Aircraft { words: vec![vec!["abcd".to_owned()]], ..aircraft() },
        Aircraft { names: [String::new(), long.clone()], ..aircraft() },
        Aircraft { formation: vec![String::new(); 5], ..aircraft() },
        Aircraft { formation: vec![long], ..aircraft() },
    ] {
        assert!(to_cdr(&broken).is_err(), "{broken:?}");
    }
}
