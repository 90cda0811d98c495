//! Only members can be optional. Found when the type is used.
use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct OptionalElements {
    a: Vec<Option<u32>>,
}

fn main() {
    let _ = idl_cdr::to_cdr(&OptionalElements { a: Vec::new() });
}
