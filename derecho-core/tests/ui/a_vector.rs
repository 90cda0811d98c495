derecho_core::row! {
    struct Wrong { count: u64, column: Vec<u32> }
}

fn main() {}
