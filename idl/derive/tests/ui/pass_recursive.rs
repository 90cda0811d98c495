//! Types may contain themselves and each other, where a value has an end.
use idl_cdr::DdsType;

#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Node {
    value: u32,
    children: Vec<Node>,
    #[dds(external)]
    next: Option<Box<Node>>,
}

#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "u8")]
enum Expression {
    #[dds(case = 0)]
    Number(f64),
    #[dds(case = 1)]
    Sum(Vec<Expression>),
    #[dds(case = 2, external)]
    Product(Box<Pair>),
}

#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Pair {
    left: Expression,
    right: Expression,
}

fn main() {
    let leaf = || Node { value: 1, children: Vec::new(), next: None };
    let tree = Node { value: 2, children: vec![leaf(), leaf()], next: Some(Box::new(leaf())) };
    assert_eq!(idl_cdr::from_cdr::<Node>(&idl_cdr::to_cdr(&tree).unwrap()).unwrap(), tree);
    let pair = Pair { left: Expression::Number(1.0), right: Expression::Sum(Vec::new()) };
    let product = Expression::Product(Box::new(pair));
    let again = idl_cdr::from_cdr::<Expression>(&idl_cdr::to_cdr(&product).unwrap()).unwrap();
    assert_eq!(again, product);
    assert_ne!(idl_cdr::fingerprint::<Node>(), idl_cdr::fingerprint::<Pair>());
}
