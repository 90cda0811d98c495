//! The derive's own `unsafe` is no offence to a crate that forbids it.
#![forbid(unsafe_code)]
#![deny(warnings)]

use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "Nav::Position")]
pub struct Position {
    #[dds(key)]
    pub r#type: u32,
    pub x: f64,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
pub struct Nothing {}

fn main() {
    assert!(Position::LAYOUT.is_some());
    assert!(Nothing::LAYOUT.is_some());
}
