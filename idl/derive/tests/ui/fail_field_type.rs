use idl_cdr::DdsType;

struct Mine;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Outer {
    value: Mine,
}

fn main() {}
