use idl_cdr::DdsType;

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Node {
    children: Vec<Node>,
}

fn main() {}
