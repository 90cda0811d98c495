use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "u8")]
enum LargeLabel {
    #[dds(case = 300)]
    A(u32),
}

fn main() {}
