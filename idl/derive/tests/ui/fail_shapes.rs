use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Tuple(u32);

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Unit;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Generic<T> {
    value: T,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Borrowed<'a> {
    value: &'a str,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
union Either {
    a: u32,
    b: f32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
enum WithData {
    A,
    B(u32),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
enum Never {}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
#[repr(C, packed)]
struct Packed {
    value: u32,
}

fn main() {}
