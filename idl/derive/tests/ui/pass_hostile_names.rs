//! Names at the place of use do not reach into the generated code.
#![allow(dead_code, non_camel_case_types)]

mod inside {
    struct Option;
    struct Result;
    mod core {}
    mod idl_cdr {}

    #[derive(::idl_cdr::DdsType)]
    #[dds(crate = "idl_cdr")]
    struct Reading {
        writer: u32,
        reader: u32,
        error: bool,
    }

    #[derive(::idl_cdr::DdsType)]
    #[dds(crate = "idl_cdr")]
    enum Level {
        Some = 3,
        None = -3,
        Ok,
    }
}

fn main() {}
