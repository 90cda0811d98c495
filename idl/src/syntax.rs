//! Syntax tree: the contents of a file before its names are looked up.
//!
//! Owns the data model between the parser and the lowering. Nothing in it is checked.

use std::rc::Rc;

use crate::literal::Number;
use crate::model::Primitive;
use crate::preprocessor::Pragma;
use crate::source::Span;

/// A name in a declaration.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: Rc<str>,
    pub(crate) span: Span,
}

/// A name in a use: `::A::B` or `B`.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) absolute: bool,
    pub(crate) parts: Vec<Name>,
    pub(crate) span: Span,
}

impl Path {
    pub(crate) fn text(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(|part| &*part.text).collect();
        format!("{}{}", if self.absolute { "::" } else { "" }, parts.join("::"))
    }
}

/// `@name`, `@name(value)` or `@name(parameter = value, ...)`.
#[derive(Clone, Debug)]
pub(crate) struct Annotation {
    pub(crate) path: Path,
    pub(crate) arguments: Arguments,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Arguments {
    None,
    One(Expression),
    Named(Vec<(Name, Expression)>),
}

/// Annotations of a definition or a part of one, and its comments as lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnnotationsAndDocs {
    pub(crate) docs: Vec<String>,
    pub(crate) annotations: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) notes: AnnotationsAndDocs,
    pub(crate) kind: DefinitionKind,
}

#[derive(Clone, Debug)]
pub(crate) enum DefinitionKind {
    Module(Scope),
    Const {
        ty: TypeSpec,
        name: Name,
        value: Expression,
    },
    Typedef {
        ty: TypeSpec,
        declarators: Vec<Declarator>,
    },
    Struct(Struct),
    /// `struct A;`, `union A;` or `interface A;`
    Forward {
        kind: ForwardKind,
        name: Name,
    },
    Union(Union),
    Enum(Enum),
    Bitmask(Enum),
    Bitset(Bitset),
    /// Types and constants of an interface; its operations are skipped.
    Interface {
        scope: Scope,
        bases: Vec<Path>,
        skipped: usize,
    },
    Annotation {
        name: Name,
        parameters: Vec<Parameter>,
        definitions: Vec<Definition>,
    },
    /// A construct that a DDS file does not need: its kind, and its name if it has one.
    Skipped {
        what: &'static str,
        name: Option<Name>,
        span: Span,
    },
    Pragma(Pragma),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardKind {
    Struct,
    Union,
    Interface,
}

#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) name: Name,
    pub(crate) definitions: Vec<Definition>,
}

#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: Name,
    pub(crate) base: Option<Path>,
    pub(crate) members: Vec<MemberDeclaration>,
    /// Whether the struct is an exception.
    pub(crate) exception: bool,
}

/// A member, or several that share a type.
#[derive(Clone, Debug)]
pub(crate) struct MemberDeclaration {
    pub(crate) notes: AnnotationsAndDocs,
    pub(crate) ty: TypeSpec,
    pub(crate) declarators: Vec<Declarator>,
}

#[derive(Clone, Debug)]
pub(crate) struct Declarator {
    pub(crate) name: Name,
    pub(crate) lengths: Vec<Expression>,
}

#[derive(Clone, Debug)]
pub(crate) struct Union {
    pub(crate) name: Name,
    pub(crate) discriminator: TypeSpec,
    pub(crate) cases: Vec<Case>,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) notes: AnnotationsAndDocs,
    pub(crate) labels: Vec<Label>,
    pub(crate) ty: TypeSpec,
    pub(crate) declarator: Declarator,
}

#[derive(Clone, Debug)]
pub(crate) enum Label {
    Case(Expression),
    Default(Span),
}

/// An enum or a bitmask.
#[derive(Clone, Debug)]
pub(crate) struct Enum {
    pub(crate) name: Name,
    pub(crate) literals: Vec<Literal>,
}

#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub(crate) notes: AnnotationsAndDocs,
    pub(crate) name: Name,
    /// `= value`, which other languages and many IDL files have.
    pub(crate) value: Option<Expression>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bitset {
    pub(crate) name: Name,
    pub(crate) base: Option<Path>,
    pub(crate) fields: Vec<Bitfield>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bitfield {
    pub(crate) notes: AnnotationsAndDocs,
    pub(crate) bits: Expression,
    pub(crate) ty: Option<TypeSpec>,
    /// Names of the bit fields; empty for padding bits.
    pub(crate) names: Vec<Name>,
}

/// A parameter of a user's annotation.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) ty: TypeSpec,
    pub(crate) name: Name,
    pub(crate) default: Option<Expression>,
}

#[derive(Clone, Debug)]
pub(crate) struct TypeSpec {
    pub(crate) kind: TypeKind,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeKind {
    Primitive(Primitive),
    String {
        wide: bool,
        bound: Option<Expression>,
    },
    Sequence(Box<TypeSpec>, Option<Expression>),
    Map(Box<TypeSpec>, Box<TypeSpec>, Option<Expression>),
    /// Fixed-point type; without digits only as the type of a constant.
    Fixed(Option<Box<(Expression, Expression)>>),
    Any,
    Named(Path),
}

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) kind: ExpressionKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum ExpressionKind {
    Number(Number),
    String { wide: bool, value: Rc<str> },
    Char { wide: bool, value: char },
    Boolean(bool),
    Name(Path),
    Unary(char, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
}
