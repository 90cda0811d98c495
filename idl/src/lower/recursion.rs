//! Types that contain themselves in every value.
//!
//! Owns the check that each type has a finite value. A sequence, a map or an optional member may
//! be empty, and a union needs only one case with a finite value.

use std::collections::HashMap;

use crate::model::{Definition, NamedKind, ScopedName, StructMember, Type};

use super::Lowering;

/// A struct or union, and the named types that lie within its values.
struct ContainmentNode<'d> {
    name: &'d ScopedName,
    contents: ValueContents<'d>,
}

enum ValueContents<'d> {
    /// Every value has all of these parts.
    All(Vec<ValuePart<'d>>),
    /// Every value has one of these parts; `None` stands for one without a struct or union.
    One(Vec<Option<ValuePart<'d>>>),
}

/// A member or a base, and the struct or union in its place.
struct ValuePart<'d> {
    member: &'d str,
    of: &'d ScopedName,
}

impl ContainmentNode<'_> {
    /// Returns the part that keeps the values from ending, if there is one.
    fn endless_part(&self, is_endless: impl Fn(&ScopedName) -> bool) -> Option<&ValuePart<'_>> {
        match &self.contents {
            ValueContents::All(parts) => parts.iter().find(|part| is_endless(part.of)),
            ValueContents::One(cases) => {
                let endless = |case: &Option<_>| {
                    case.as_ref().is_some_and(|part: &ValuePart<'_>| is_endless(part.of))
                };
                if cases.iter().all(endless) { cases.first()?.as_ref() } else { None }
            }
        }
    }
}

impl Lowering<'_> {
    /// Reports types without a finite value, once for each cycle of types.
    pub(super) fn check_recursion(&mut self, definitions: &[Definition]) {
        let mut nodes = Vec::new();
        gather(definitions, &mut nodes);
        let endless = endless_types(&nodes);
        let mut visited: Vec<&ScopedName> = Vec::new();
        for node in &nodes {
            let start = visited.len();
            let mut at = node.name;
            while let Some(inner) = endless.get(at).filter(|_| !visited.contains(&at)) {
                visited.push(at);
                at = inner.of;
            }
            // A type that only leads to a cycle is not reported beside the types of the cycle.
            if let Some(first) = visited[start..].iter().position(|name| *name == at) {
                self.report_cycle(&visited[start + first..], &endless);
            }
        }
    }

    fn report_cycle(
        &mut self,
        cycle: &[&ScopedName],
        endless: &HashMap<&ScopedName, &ValuePart<'_>>,
    ) {
        let Some(&first) = cycle.first() else { return };
        let step = |name: &&ScopedName| Some(format!("`{name}.{}`", endless.get(*name)?.member));
        let steps: Vec<String> = cycle.iter().filter_map(step).collect();
        let text = format!(
            "`{first}` has no finite value: each one contains another, by {}; make a member \
             `@optional`, or use a sequence, or a case of a union that ends",
            steps.join(" and ")
        );
        if let Some(span) = self.places.get(first) {
            self.reports.error(*span, text);
        }
    }
}

/// Returns the types without a finite value, each with a part that is such a type, too.
fn endless_types<'n>(
    nodes: &'n [ContainmentNode<'n>],
) -> HashMap<&'n ScopedName, &'n ValuePart<'n>> {
    let all: HashMap<_, _> =
        nodes.iter().enumerate().map(|(index, node)| (node.name, index)).collect();
    // All types are endless until shown otherwise; those with fewer endless parts are looked at
    // again whenever a type within them is found to end.
    let mut users = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let parts: Vec<&ValuePart<'_>> = match &node.contents {
            ValueContents::All(parts) => parts.iter().collect(),
            ValueContents::One(cases) => cases.iter().flatten().collect(),
        };
        for part in parts {
            if let Some(&of) = all.get(part.of) {
                users[of].push(index);
            }
        }
    }
    let mut is_endless = vec![true; nodes.len()];
    let mut open: Vec<usize> = (0..nodes.len()).collect();
    while let Some(index) = open.pop() {
        // The definition of an unknown type has an error, which has been reported.
        let endless = |name: &ScopedName| all.get(name).is_some_and(|&of| is_endless[of]);
        if is_endless[index] && nodes[index].endless_part(endless).is_none() {
            is_endless[index] = false;
            open.extend(&users[index]);
        }
    }
    let endless = |name: &ScopedName| all.get(name).is_some_and(|&of| is_endless[of]);
    let found = |node: &'n ContainmentNode<'n>| Some((node.name, node.endless_part(endless)?));
    nodes.iter().filter_map(found).collect()
}

fn gather<'d>(definitions: &'d [Definition], nodes: &mut Vec<ContainmentNode<'d>>) {
    for definition in definitions {
        match definition {
            Definition::Module(module) => gather(&module.definitions, nodes),
            Definition::Struct(of) => {
                let base = of.base.iter().map(|base| ValuePart { member: "base", of: base });
                let members = of.members.iter().filter(|member| !member.optional).filter_map(part);
                let contents = ValueContents::All(base.chain(members).collect());
                nodes.push(ContainmentNode { name: &of.name, contents });
            }
            Definition::Union(of) => {
                let cases = of.cases.iter().map(|case| part(&case.member));
                // Values without a case have no member.
                let contents = ValueContents::One(cases.chain(of.open.then_some(None)).collect());
                nodes.push(ContainmentNode { name: &of.name, contents });
            }
            _ => {}
        }
    }
}

/// Returns the struct or union of which every value of the member has one.
fn part(member: &StructMember) -> Option<ValuePart<'_>> {
    let mut ty = &member.ty;
    while let Type::Array(element, _) = ty.resolved() {
        ty = element;
    }
    match ty.resolved() {
        Type::Named(of, NamedKind::Struct | NamedKind::Union) => {
            Some(ValuePart { member: &member.name, of })
        }
        _ => None,
    }
}
