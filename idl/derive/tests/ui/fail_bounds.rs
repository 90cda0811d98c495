use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct BoundOnNumber {
    #[dds(bound = 3)]
    value: u32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct TooManyBounds {
    #[dds(bound = [3, 4])]
    value: String,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct TooManyElements {
    #[dds(element_try_construct = ["trim", "discard"])]
    a: [[u32; 2]; 2],
}

fn main() {}
