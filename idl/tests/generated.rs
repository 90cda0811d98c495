//! The generated Rust compiles, has the names of the IDL and keeps its bounds, and its values
//! survive a round trip in every encoding.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use generated::nav::detail::{Position, Track};
use generated::nav::{Aircraft, Basics, FlightPhase};
use generated::other::Place;
use idl_cdr::{
    DdsType, Encoding, Fixed, LongDouble, WChar, WString, from_cdr, key_to_cdr, to_cdr, to_cdr_with,
};

/// Includes the generated code as a user does, one file per module.
macro_rules! generated {
    ($($name:ident $file:literal)*) => {$(
        mod $name {
            #![deny(missing_docs)]
            #![allow(unreachable_pub, dead_code, reason = "not every type is used here")]
            include!($file);
        }
    )*};
}

generated! {
    generated "golden/nav.rs"
    constants "golden/constants.rs"
    types "golden/types.rs"
    annotated "golden/annotated.rs"
    names "golden/names.rs"
    skipped "golden/skipped.rs"
    ros "golden/ros.rs"
    ros_packages "golden/ros_packages.rs"
    ros_packages_idl "golden/ros_packages_idl.rs"
}

const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

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

#[track_caller]
fn comes_back<T: DdsType + PartialEq + std::fmt::Debug>(value: &T) {
    for encoding in ENCODINGS {
        let bytes = to_cdr_with(value, encoding).unwrap();
        assert_eq!(from_cdr::<T>(&bytes).unwrap(), *value, "{encoding:?}");
    }
}

#[test]
fn generated_types_have_idl_names_and_survive_round_trip() {
    assert_eq!(Aircraft::TYPE_NAME, "Nav::Aircraft");
    assert_eq!(Position::TYPE_NAME, "Nav::Detail::Position");
    assert!(Position::LAYOUT.is_some() && Basics::LAYOUT.is_none());
    let value = aircraft();
    comes_back(&value);
    assert_eq!(key_to_cdr(&value).unwrap(), [0, 0, 0, 7, 0, 0, 0, 5, b'C', b'1', b'7', b'2', 0]);
}

#[test]
fn encoder_enforces_bounds_of_idl() {
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

fn everything() -> types::kinds::Everything {
    use types::kinds::{Access, Everything, Header, LongHeader, Priority};
    Everything {
        letter: 'ä',
        wide_letter: WChar(0x4e2d),
        i64: i64::MIN,
        f64: -0.5,
        f128: LongDouble::from(1.25),
        amount: Fixed::from_units(-12345).unwrap(),
        digits: Fixed::from_units(9_999_999_999).unwrap(),
        text: "Grüße".to_owned(),
        wide_text: WString::from("широко"),
        short_wide_text: WString::from("kurz"),
        wide_texts: vec![WString::from("abc"), WString::default()],
        table: BTreeMap::from([("a".to_owned(), vec![1.0, 2.0]), ("b".to_owned(), vec![])]),
        priorities: BTreeMap::from([(-1, Priority::High), (5, Priority::None)]),
        nested: BTreeMap::from([(Priority::Low, BTreeMap::from([('x', "yz".to_owned())]))]),
        cube: [[[1, 2, 3, 4]; 3]; 2],
        blobs: [vec![1, 2, 3], vec![]],
        priority: Priority::Highest,
        access: Access::READ | Access::TYPE,
        header: Header { version: 5, urgent: true, hop_count: 1000, ..Header::default() },
        long_header: LongHeader { hop_limit: 1023, offset: -16, ..LongHeader::default() },
        ..Everything::default_value()
    }
}

#[test]
fn values_of_every_kind_survive_round_trip() {
    use types::kinds::{
        Base, Byte, Derived, Letter, Middle, Node, Open, Priority, Shape, WideLetter, Yes,
    };
    comes_back(&everything());
    let leaf = Node { name: "leaf".to_owned(), children: vec![], left: None };
    let tree = Node {
        name: "root".to_owned(),
        children: vec![leaf.clone(), Node { children: vec![leaf.clone()], ..leaf.clone() }],
        left: Some(Box::new(leaf.clone())),
    };
    comes_back(&tree);
    for discriminator in [Priority::None, Priority::Low] {
        comes_back(&Shape::Radius { discriminator, value: 1.5 });
    }
    comes_back(&Shape::Sides([Fixed::from_units(7).unwrap(); 3]));
    comes_back(&Shape::Nodes { discriminator: Priority::Highest, value: vec![leaf] });
    comes_back(&Open::Text { discriminator: 2, value: Box::new("text".to_owned()) });
    comes_back(&Open::NoCase { discriminator: -7 });
    comes_back(&Letter::First { discriminator: '\'', value: 1 });
    comes_back(&Letter::Other { discriminator: 'b', value: 2 });
    comes_back(&Yes::Why("so".to_owned()));
    comes_back(&WideLetter::X(3));
    comes_back(&WideLetter::NoCase { discriminator: WChar(0x1234) });
    comes_back(&Byte::Seven(7));
    let base = Middle { base: Base { id: 9, base: "b".to_owned() }, width: 3 };
    let derived = Derived { base, height: 4, r#type: 5 };
    comes_back(&derived);
    assert_eq!(key_to_cdr(&derived).unwrap(), [0, 0, 0, 9]);
    assert_eq!(Priority::default_value(), Priority::Low);
    assert_eq!((Priority::None as i32, Priority::Highest as i32), (-1, 6));
}

#[test]
fn annotations_take_effect_in_generated_types() {
    use annotated::marked::{Choice, Coded, Reading, Setting, State};
    assert_eq!(Setting::default_value(), Setting::Level(2.5));
    let none = Setting::Reason(Box::new("none".to_owned()));
    // An appendable union that ends after its discriminator.
    assert_eq!(from_cdr::<Setting>(&[0, 9, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]).unwrap(), none);
    assert_eq!(Coded::default_value(), Coded::Other { discriminator: 'x', value: 7 });
    let value = Reading::default_value();
    assert_eq!((value.pressure, value.temperature, value.wanted), (1.0, 20, State::On));
    assert_eq!(*value.elsewhere, -3);
    assert_eq!((value.label.as_str(), value.mark, value.wide_mark), ("none", 'x', WChar(121)));
    assert_eq!((value.valid, value.price.units(), value.three), (true, 250, [1, 2, 3]));
    assert_eq!((value.some.as_slice(), value.names.len()), (&[0.5, 1.0][..], 2));
    let value = Reading { pump: 3, serial: "s".to_owned(), remark: Some("r".to_owned()), ..value };
    for encoding in ENCODINGS {
        let bytes = to_cdr_with(&value, encoding).unwrap();
        assert_eq!(from_cdr::<Reading>(&bytes).unwrap(), value, "{encoding:?}");
    }
    comes_back(&Choice::Text { discriminator: -3, value: "t".to_owned() });
    assert_eq!(Choice::NONE, Choice::Number(0));
    let point = annotated::listed::Point { x: 1, y: 2 };
    let plot = annotated::listed::Plot { name: String::new(), at: point.into(), value: 3 };
    assert_eq!(key_to_cdr(&plot).unwrap(), [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
}

/// Annotations determine the value, as in DDS-XTYPES.
#[test]
fn generated_types_implement_default_with_default_values_of_xtypes() {
    use annotated::marked::{Coded, Reading, Setting, State};
    use types::kinds::{Access, Derived, Everything, Header, Open, Priority, Shape};
    fn agree<T: DdsType + Default + PartialEq + std::fmt::Debug>() {
        assert_eq!(T::default(), T::default_value());
    }
    agree::<Aircraft>();
    agree::<Derived>();
    agree::<Everything>();
    agree::<Open>();
    agree::<Shape>();
    assert_eq!((Reading::default().temperature, Reading::default().wanted), (20, State::On));
    assert_eq!(Setting::default(), Setting::Level(2.5));
    assert_eq!(Coded::default(), Coded::Other { discriminator: 'x', value: 7 });
    // By `@default_literal`, not the enumerator with the lowest value.
    assert_eq!(Priority::default(), Priority::Low);
    assert_eq!((Access::default(), Header::default().version), (Access(0), 0));
}

#[test]
fn generated_constants_have_values_of_idl() {
    use constants::limits;
    assert_eq!(
        (limits::DAY, limits::MASK, limits::ALL, limits::NEGATIVE),
        (86400, 0xF0, u32::MAX, -15)
    );
    assert_eq!((limits::THIRD, limits::TAX.units()), (1.0 / 3.0, 2375));
    // Bits computed by hand from IEEE 754: 15 bits of exponent, 112 of fraction, rounded to
    // the nearest.
    let bits = |number: LongDouble| u128::from_le_bytes(number.0);
    assert_eq!(bits(limits::E), 0x4000_5bf0_a8b1_4576_9535_5f0a_e836_c878);
    assert_eq!(bits(limits::HUGE), 0x73e7_3a97_c4b5_fd80_5291_940a_c3f3_c992);
    assert_eq!(bits(limits::EXACT_THIRD) >> 4, 0x03ff_d555_5555_5555_5555_5555_5555_5555);
    assert_eq!(limits::SHORT_E, std::f64::consts::E);
    let exact = limits::Exact::default_value();
    assert_eq!(bits(exact.tenth), 0x3ffb_9999_9999_9999_9999_9999_9999_999a);
    assert_eq!(exact.plain.to_f64(), 2.5);
    assert_eq!(exact.both[0], exact.tenth);
    assert_eq!(bits(exact.both[1]), 0x73e6_a375_0647_fcab_18c2_1ab9_0545_0cc3);
    #[rustfmt::skip]
    let payload = [
        0x3f, 0xfb, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a,
    ];
    assert_eq!(to_cdr_with(&exact.tenth, Encoding::CDR_BE).unwrap()[4..], payload);
    assert_eq!((limits::deep::ROWS, limits::DEFAULT_LEVEL), (14, limits::Level::High));
}

#[test]
fn ros_messages_survive_round_trip() {
    use ros::fleet_interfaces::msg::{VehicleState, vehicle_state_constants as constants};
    use ros::fleet_interfaces::srv::{ParkRequest, ParkResponse};
    assert_eq!(VehicleState::TYPE_NAME, "fleet_interfaces::msg::VehicleState");
    let state =
        VehicleState { remark: WString::from("ä"), letter: 'a', ..VehicleState::default_value() };
    assert_eq!((state.mode, state.name.as_str()), (constants::MODE_DRIVING, "vehicle"));
    assert_eq!((state.active, state.counts.as_slice()), (true, &[1, -2, 3][..]));
    comes_back(&ParkResponse { done: true, state });
    assert_eq!(ParkRequest::default_value().r#where, -1);
}

#[test]
fn names_invalid_in_rust_are_replaced() {
    use names::r#type::{Color, Holder, Option_, Vec_};
    let vec = Vec_ { foo_bar: 1, foo_bar_: 2, foo_bar2: 3, self_: 4, base: 5 };
    let option = Option_ { base: vec.clone(), base2: 6 };
    comes_back(&Holder { vec, option, c: Color::ColorBlue_ });
}

#[test]
fn types_of_interface_files_have_the_names_and_values_that_ros_2_gives_them() {
    use ros_packages::fleet_msgs::{action::dds as actions, msg::dds as msgs};
    use ros_packages::nav_msgs::srv::dds::{GetMapRequest, GetMapResponse};
    use ros_packages::{geometry_msgs, std_msgs};

    assert_eq!(<std_msgs::msg::dds::String_ as DdsType>::TYPE_NAME, "std_msgs::msg::dds_::String_");
    assert_eq!(GetMapRequest::TYPE_NAME, "nav_msgs::srv::dds_::GetMap_Request_");
    assert_eq!(GetMapResponse::default().map.info.width, 0);
    assert_eq!(geometry_msgs::msg::dds::Quaternion::default().w, 1.0);
    let everything = msgs::Everything::default();
    assert_eq!(everything.counts, [1, -2, 3]);
    assert_eq!((&*everything.name, everything.letter), ("front", 65));
    assert_eq!((everything.names.len(), everything.flags), (2, [true, false]));
    assert_eq!(msgs::everything_constants::LIMIT, -16);
    assert_eq!(msgs::everything_constants::GREETING, "it's # fine");
    assert_eq!(msgs::everything_constants::PLAIN, "plain words");
    assert_eq!(
        actions::ParkSendGoalRequest::TYPE_NAME,
        "fleet_msgs::action::dds_::Park_SendGoal_Request_"
    );
    assert!(!actions::ParkGetResultResponse::default().result.done);
    let from_idl = ros_packages_idl::nav_msgs::srv::GetMapResponse::default();
    assert_eq!(from_idl.map.header.frame_id, "");
    assert_eq!(ros_packages_idl::std_msgs::msg::String_::TYPE_NAME, "std_msgs::msg::String");
}
