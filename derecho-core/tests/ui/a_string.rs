derecho_core::row! {
    struct Wrong { count: u64, column: String }
}

fn main() {}
