derecho_core::row! {
    struct Wrong { count: u64, column: [&'static str; 2] }
}

fn main() {}
