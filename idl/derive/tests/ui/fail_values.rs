//! Attributes without the value that they need, and with one that they do not take.

use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name)]
struct NoName {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", extensibility(mutable))]
struct InParentheses {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", nested = true)]
struct WithValue {
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct NoId {
    #[dds(id)]
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct NoBound {
    #[dds(key, bound)]
    value: String,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct KeyWithValue {
    #[dds(key = true)]
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct KeyInParentheses {
    #[dds(key(first))]
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct NoRange {
    #[dds(range = "1..3")]
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator)]
enum NoDiscriminator {
    #[dds(case = 1)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum NoLabel {
    #[dds(case)]
    A(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitmask, flags)]
struct NoFlags(u32);

fn main() {}
