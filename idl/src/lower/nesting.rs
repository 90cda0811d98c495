//! Depth of types within types.
//!
//! Owns the limit on the depth, which the Rust compiler has as well. Types that contain themselves
//! count once.

use std::collections::HashMap;

use crate::model::{Definition, Element, NamedKind, ScopedName, StructMember, Type};

use super::Lowering;

/// Maximum number of types, options, boxes, arrays and collections within each other. The Rust
/// compiler follows 128, and the types of an application around the outermost one count, too.
const DEEPEST: usize = 100;

/// Depth of a type with a reported one within it.
const REPORTED: usize = usize::MAX;

/// A struct or union, and what it consists of.
struct NestingNode<'d> {
    name: &'d ScopedName,
    /// Levels down to a part without parts.
    leaf: usize,
    /// Levels down to another struct or union.
    inner: Vec<(usize, &'d ScopedName)>,
}

/// Progress of a node.
#[derive(Clone, Copy, PartialEq)]
enum Depth {
    Unknown,
    Open,
    Known(usize),
}

impl Lowering<'_> {
    /// Reports types that are nested deeper than Rust allows.
    pub(super) fn check_nesting(&mut self, definitions: &[Definition]) {
        let mut nodes = Vec::new();
        gather(definitions, &mut nodes);
        let indices: HashMap<&ScopedName, usize> =
            nodes.iter().enumerate().map(|(index, node)| (node.name, index)).collect();
        let mut depths = vec![Depth::Unknown; nodes.len()];
        for start in 0..nodes.len() {
            // An explicit stack, because the depth is not limited before it is known.
            let mut open = vec![start];
            while let Some(&at) = open.last() {
                let inner = nodes[at].inner.iter().filter_map(|(_, name)| indices.get(name));
                let unknown = inner.copied().find(|inner| depths[*inner] == Depth::Unknown);
                if depths[at] == Depth::Unknown {
                    depths[at] = Depth::Open;
                }
                if let Some(next) = unknown.filter(|next| depths[*next] == Depth::Unknown) {
                    open.push(next);
                    continue;
                }
                open.pop();
                if depths[at] == Depth::Open {
                    depths[at] = Depth::Known(self.depth_of(&nodes[at], &indices, &depths));
                }
            }
        }
    }

    /// Returns the depth of a type whose parts are known. The innermost type that is too deep is
    /// reported, and those around it are not.
    fn depth_of(
        &mut self,
        node: &NestingNode<'_>,
        indices: &HashMap<&ScopedName, usize>,
        depths: &[Depth],
    ) -> usize {
        let mut deepest = node.leaf;
        for (levels, name) in &node.inner {
            if let Some(Depth::Known(inner)) = indices.get(name).map(|index| depths[*index]) {
                deepest = deepest.max(inner.saturating_add(*levels));
            }
        }
        if deepest < DEEPEST {
            return 1 + deepest;
        }
        if deepest == REPORTED {
            return REPORTED;
        }
        if let Some(span) = self.places.get(node.name) {
            let text = format!(
                "`{}` has types within types, more than {DEEPEST} levels deep (`@optional`, \
                 `@external`, arrays and collections count), which Rust does not compile; use \
                 fewer levels",
                node.name
            );
            self.reports.error(*span, text);
        }
        REPORTED
    }
}

fn gather<'d>(definitions: &'d [Definition], nodes: &mut Vec<NestingNode<'d>>) {
    for definition in definitions {
        match definition {
            Definition::Module(module) => gather(&module.definitions, nodes),
            Definition::Struct(of) => {
                let mut node = NestingNode { name: &of.name, leaf: 1, inner: Vec::new() };
                node.inner.extend(of.base.as_ref().map(|base| (0, base)));
                of.members.iter().for_each(|member| node.add(member));
                nodes.push(node);
            }
            Definition::Union(of) => {
                let mut node = NestingNode { name: &of.name, leaf: 1, inner: Vec::new() };
                of.cases.iter().for_each(|case| node.add(&case.member));
                nodes.push(node);
            }
            _ => {}
        }
    }
}

impl<'d> NestingNode<'d> {
    fn add(&mut self, member: &'d StructMember) {
        let levels = usize::from(member.optional) + usize::from(member.external);
        self.add_type(&member.ty, levels);
    }

    fn add_type(&mut self, ty: &'d Type, levels: usize) {
        let mut add_element = |element: &'d Element| {
            self.add_type(&element.ty, levels + 1 + usize::from(element.external));
        };
        match ty {
            Type::Alias(alias) => self.add_type(&alias.ty, levels),
            Type::Sequence(element, _) | Type::Array(element, _) => add_element(element),
            Type::Map(key, value, _) => {
                add_element(key);
                add_element(value);
            }
            Type::Named(name, NamedKind::Struct | NamedKind::Union) => {
                self.inner.push((levels, name));
            }
            _ => self.leaf = self.leaf.max(levels + 1),
        }
    }
}
