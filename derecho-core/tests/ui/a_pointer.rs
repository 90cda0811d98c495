derecho_core::row! {
    struct Wrong { count: u64, column: *mut u64 }
}

fn main() {}
