//! Cycles in the containment of types.
//!
//! Owns the order of types by containment. Never knows the use of the order.

use crate::model::{TypeGraph, TypeNodeId};

/// Whether a type contains another one, directly or indirectly.
pub(crate) fn reaches(graph: &TypeGraph, from: TypeNodeId, to: TypeNodeId) -> bool {
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

/// Returns groups of types that contain each other; each type comes after the types it contains.
/// Uses Tarjan's algorithm with an explicit stack, because the nesting depth of types is not
/// bounded here.
pub(crate) fn components(graph: &TypeGraph, root: TypeNodeId) -> Vec<Vec<TypeNodeId>> {
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
