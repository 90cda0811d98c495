#[derive(Clone, Copy, PartialEq, Debug)]
struct Inner {
    next: *const Inner,
}

derecho_core::row! {
    struct Wrong { count: u64, column: Inner }
}

fn main() {}
