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

/// The first case leads back to the union, so a default value has the second.
#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum Term {
    #[dds(case = 0)]
    Negated(Box<Term>),
    #[dds(case = 4)]
    Leaf(i32),
}

/// All cases of `Outer` lead back to it; the second ends after fewer types.
#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Outer {
    #[dds(case = false)]
    Outer([Box<Outer>; 2]),
    #[dds(case = true)]
    Inner(Box<Inner>),
}

#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Inner {
    #[dds(case = false)]
    Outer(Box<Outer>),
    #[dds(case = true)]
    Leaf(i32),
}

/// Every value of `Endless` has an `Infinite` in it and the other way round.
#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Endless {
    #[dds(default)]
    Infinite(Box<Infinite>),
}

#[derive(DdsType, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Infinite {
    #[dds(default)]
    Endless(Box<Endless>),
}

fn main() {
    assert_eq!(Term::default_value(), Term::Leaf(0));
    assert_eq!(Outer::default_value(), Outer::Inner(Box::new(Inner::Leaf(0))));
    let payload = idl_cdr::to_cdr(&Term::Negated(Box::new(Term::Leaf(7)))).unwrap();
    let term = idl_cdr::from_cdr::<Term>(&payload).unwrap();
    assert_eq!(term, Term::Negated(Box::new(Term::Leaf(7))));
    let error = std::panic::catch_unwind(Endless::default_value).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert_eq!(text, "the union `Endless` has no finite value: each case contains another");

    let leaf = || Node { value: 1, children: Vec::new(), next: None };
    let tree = Node { value: 2, children: vec![leaf(), leaf()], next: Some(Box::new(leaf())) };
    assert_eq!(idl_cdr::from_cdr::<Node>(&idl_cdr::to_cdr(&tree).unwrap()).unwrap(), tree);
    let pair = Pair { left: Expression::Number(1.0), right: Expression::Sum(Vec::new()) };
    let product = Expression::Product(Box::new(pair));
    let again = idl_cdr::from_cdr::<Expression>(&idl_cdr::to_cdr(&product).unwrap()).unwrap();
    assert_eq!(again, product);
    assert_ne!(idl_cdr::fingerprint::<Node>(), idl_cdr::fingerprint::<Pair>());
}
