use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct External {
    a: i32,
    next: Box<External>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct InArray {
    next: [Box<Self>; 2],
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct NotSent {
    #[dds(non_serialized)]
    next: Box<NotSent>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Union {
    #[dds(case = false)]
    One(Box<Union>),
    #[dds(case = true)]
    Two(Box<[Union; 2]>),
}

fn main() {}
