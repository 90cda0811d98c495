use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
#[repr(i64)]
enum Wide {
    A = 0x1_0000_0000,
}

fn main() {}
