derecho_core::row! {
    struct Wrong { count: u64, column: &'static u64 }
}

fn main() {}
