//! Values of types that contain themselves.
//!
//! Owns the choice of a union's case for its default value: the case that the default of the
//! discriminator selects, unless its values may contain the union again. Such a case gives way to
//! the first case that cannot; if all can, to the case that ends after the fewest types.

use std::collections::BTreeMap;

use crate::{DescriptorOf, MemberDescriptor, TypeDescriptor, TypeKind};

/// A type, and the types of which its values have one in place. Types are numbered.
pub enum ValueNode {
    /// Every value has all of these parts. A type without parts has a value of its own.
    All(Vec<usize>),
    /// A union: every value has the part of one case; `None` stands for a case without parts.
    One(Vec<Option<usize>>),
}

impl ValueNode {
    /// Returns the types of which a value may have one in place.
    pub fn parts(&self) -> Vec<usize> {
        match self {
            Self::All(parts) => parts.clone(),
            Self::One(cases) => cases.iter().copied().flatten().collect(),
        }
    }
}

/// Types with what is known of all of their values.
pub struct ValueGraph {
    nodes: Vec<ValueNode>,
    /// Types that have the type in place, by its number.
    users: Vec<Vec<usize>>,
    /// Fewest types within each other in a value of each type; `None` if all values are infinite.
    ranks: Vec<Option<usize>>,
}

impl ValueGraph {
    /// Examines types, which refer to each other by their places in the list.
    pub fn new(nodes: Vec<ValueNode>) -> Self {
        let mut users = vec![Vec::new(); nodes.len()];
        for (user, node) in nodes.iter().enumerate() {
            for part in node.parts() {
                users[part].push(user);
            }
        }
        let ranks = ranks(&nodes, &users);
        Self { nodes, users, ranks }
    }

    /// Returns the case of a union's default value; `None` if the union has no finite value. The
    /// union's own default selects the case `preferred`, if any.
    ///
    /// Defaults that are made by this choice end: a case that can lead back to its union is chosen
    /// only if all can, and then has a lower rank than the union.
    pub fn default_case(&self, union: usize, preferred: Option<usize>) -> Option<usize> {
        let ValueNode::One(cases) = &self.nodes[union] else { return None };
        let returning = containing(union, &self.users);
        // A case without parts ends at once.
        let rank = |case: usize| cases[case].map_or(Some(0), |of| self.ranks[of]);
        let returns = |case: usize| cases[case].is_some_and(|of| returning[of]);
        let mut candidates = preferred.into_iter().chain(0..cases.len());
        candidates.find(|&case| rank(case).is_some() && !returns(case)).or_else(|| {
            let finite = (0..cases.len()).filter(|&case| rank(case).is_some());
            finite.min_by_key(|&case| rank(case))
        })
    }
}

/// Returns the ranks of all types, beginning with those of types that end at once.
fn ranks(nodes: &[ValueNode], users: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut missing: Vec<usize> = nodes.iter().map(|node| node.parts().len()).collect();
    let mut ranks = vec![None; nodes.len()];
    let ends_at_once = |node: &ValueNode| match node {
        ValueNode::All(parts) => parts.is_empty(),
        ValueNode::One(cases) => cases.contains(&None),
    };
    let mut found: Vec<usize> = (0..nodes.len()).filter(|&at| ends_at_once(&nodes[at])).collect();
    found.iter().for_each(|&at| ranks[at] = Some(0));
    let mut rank = 0;
    while !found.is_empty() {
        rank += 1;
        let mut next = Vec::new();
        for &user in found.iter().flat_map(|&at| &users[at]) {
            missing[user] -= 1;
            let ends = matches!(nodes[user], ValueNode::One(_)) || missing[user] == 0;
            if ends && ranks[user].is_none() {
                ranks[user] = Some(rank);
                next.push(user);
            }
        }
        found = next;
    }
    ranks
}

/// Returns for each type whether its values may contain this one.
fn containing(of: usize, users: &[Vec<usize>]) -> Vec<bool> {
    let mut containing = vec![false; users.len()];
    let mut open = vec![of];
    containing[of] = true;
    while let Some(at) = open.pop() {
        for &user in &users[at] {
            if !std::mem::replace(&mut containing[user], true) {
                open.push(user);
            }
        }
    }
    containing
}

/// Returns the named types within a type's values; the type itself is the first.
pub(crate) fn value_nodes(root: &'static TypeDescriptor) -> Vec<ValueNode> {
    let mut found = FoundTypes { places: BTreeMap::new(), types: Vec::new() };
    found.place(root);
    let mut nodes = Vec::new();
    while let Some(&of) = found.types.get(nodes.len()) {
        nodes.push(match of.kind {
            TypeKind::Structure(of) => {
                let base = of.base.and_then(|base| found.part(base));
                let members = of.members.iter().filter_map(|member| found.member(member));
                ValueNode::All(members.chain(base).collect())
            }
            TypeKind::Union(of) => {
                let part = |case: &crate::CaseDescriptor| found.member(case.member.as_ref()?);
                ValueNode::One(of.cases.iter().map(part).collect())
            }
            _ => ValueNode::All(Vec::new()),
        });
    }
    nodes
}

/// Structs and unions in the order in which they were found.
struct FoundTypes {
    places: BTreeMap<&'static str, usize>,
    types: Vec<&'static TypeDescriptor>,
}

impl FoundTypes {
    fn place(&mut self, of: &'static TypeDescriptor) -> usize {
        let place = *self.places.entry(of.name).or_insert(self.types.len());
        if place == self.types.len() {
            self.types.push(of);
        }
        place
    }

    fn member(&mut self, of: &MemberDescriptor) -> Option<usize> {
        // A default of its own is finite.
        if of.optional || of.default.is_some() { None } else { self.part(of.type_of) }
    }

    /// Returns the struct or union of which every value of the type has one.
    fn part(&mut self, of: DescriptorOf) -> Option<usize> {
        let of = of();
        match of.kind {
            TypeKind::Array(inner, _) | TypeKind::External(inner) => self.part(inner),
            TypeKind::Structure(_) | TypeKind::Union(_) => Some(self.place(of)),
            _ => None,
        }
    }
}
