//! A crate that re-exports the types can be named by a path.
mod api {
    pub mod types {
        pub use idl_cdr::*;
    }
}

#[derive(api::types::DdsType)]
#[dds(crate = "crate::api::types")]
struct Reading {
    #[dds(bound = [_, 8])]
    names: Vec<String>,
}

fn main() {
    let reading = Reading { names: vec!["a".to_owned()] };
    assert!(api::types::to_cdr(&reading).is_ok());
}
