derecho_core::row! {
    struct Wrong { count: u64, column: Option<u64> }
}

fn main() {}
