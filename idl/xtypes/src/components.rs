//! Which types contain each other.
//!
//! Owns the order in which types are made of each other. Never knows what is made of them.

use crate::model::{Graph, NodeId};

/// Whether a type is made of another one.
pub(crate) fn reaches(graph: &Graph, from: NodeId, to: NodeId) -> bool {
    let mut seen = vec![false; graph.nodes.len()];
    let mut open = graph.parts(from);
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        if !std::mem::replace(&mut seen[next.0 as usize], true) {
            open.extend(graph.parts(next));
        }
    }
    false
}

/// Types that contain each other are together; whatever a type is made of comes before it. Tarjan's
/// algorithm, with a stack of its own, for how deep types go is not ours to say.
pub(crate) fn components(graph: &Graph, root: NodeId) -> Vec<Vec<NodeId>> {
    let count = graph.nodes.len();
    let (mut order, mut low) = (vec![usize::MAX; count], vec![usize::MAX; count]);
    let (mut waiting, mut is_waiting) = (Vec::new(), vec![false; count]);
    let (mut found, mut next) = (Vec::new(), 0);
    let mut calls = vec![(root, graph.parts(root), 0)];
    while let Some((of, parts, at)) = calls.last_mut() {
        let (of, place) = (*of, of.0 as usize);
        if *at == 0 && order[place] == usize::MAX {
            (order[place], low[place]) = (next, next);
            next += 1;
            waiting.push(of);
            is_waiting[place] = true;
        }
        if let Some(&part) = parts.get(*at) {
            *at += 1;
            let other = part.0 as usize;
            if order[other] == usize::MAX {
                calls.push((part, graph.parts(part), 0));
            } else if is_waiting[other] {
                low[place] = low[place].min(order[other]);
            }
            continue;
        }
        calls.pop();
        if let Some((caller, ..)) = calls.last() {
            let caller = caller.0 as usize;
            low[caller] = low[caller].min(low[place]);
        }
        if low[place] == order[place] {
            let mut component = Vec::new();
            while let Some(member) = waiting.pop() {
                is_waiting[member.0 as usize] = false;
                component.push(member);
                if member == of {
                    break;
                }
            }
            found.push(component);
        }
    }
    found
}
