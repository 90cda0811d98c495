//! IDL text of run-time types.
//!
//! ```text
//! types ──> order of definitions ──> definitions ──> text ──> compiler ──> equal types?
//!           (mod)                    (definitions, literals)               (check)
//! ```
//! Owns the order of the definitions, their modules, and the promise that the text compiles to the
//! type. Never decides what IDL means; the compiler in the crate `idl` does.

mod check;
mod definitions;
mod literals;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use crate::DynamicType;
use crate::components::{components, reaches};
use crate::model::{NodeKind, Structure, TypeGraph, TypeNodeId};
use literals::identifier;

/// A type that cannot be written in IDL, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInIdl {
    /// Name of the type; empty for a type without one.
    pub name: String,
    /// Reason.
    pub reason: String,
}

impl fmt::Display for NotInIdl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.is_empty() {
            true => write!(f, "the type cannot be written in IDL: {}", self.reason),
            false => write!(f, "`{}` cannot be written in IDL: {}", self.name, self.reason),
        }
    }
}

impl Error for NotInIdl {}

impl DynamicType {
    /// Returns the IDL of the type, and of all types within it.
    ///
    /// The text compiles to this type: the type objects of both are equal, except that a typedef of
    /// a peer is replaced by the type that it names, and `uint8` is `octet`.
    ///
    /// ```
    /// use idl_cdr::DdsType;
    /// use idl_xtypes::DynamicType;
    ///
    /// #[derive(DdsType)]
    /// #[dds(crate = "idl_cdr", name = "Nav::Fix")]
    /// struct Fix { #[dds(key)] id: i32, at: [f64; 2] }
    ///
    /// let text = "module Nav {
    ///     @final
    ///     struct Fix {
    ///         @key int32 id;
    ///         double at[2];
    ///     };
    /// };
    /// ";
    /// assert_eq!(DynamicType::of::<Fix>().to_idl()?, text);
    /// # Ok::<(), idl_xtypes::NotInIdl>(())
    /// ```
    pub fn to_idl(&self) -> Result<String, NotInIdl> {
        Self::all_to_idl([self])
    }

    /// Returns the IDL of several types, in which a type that several of them contain appears once.
    pub fn all_to_idl<'a>(
        types: impl IntoIterator<Item = &'a DynamicType>,
    ) -> Result<String, NotInIdl> {
        let types: Vec<&DynamicType> = types.into_iter().collect();
        let mut graph = TypeGraph::default();
        let mut roots = Vec::new();
        for of in &types {
            let root = graph.take_in(&of.graph, of.root);
            let root = graph.resolved(root);
            let refused =
                |reason: &str| NotInIdl { name: of.name().to_owned(), reason: reason.to_owned() };
            if !of.graph.has_names() {
                return Err(refused("the names of its members are not known"));
            }
            if !is_defined(&graph, root) {
                return Err(refused("only a type with a name has a definition"));
            }
            roots.push(root);
        }
        let text = IdlPrinter::new(&graph).print(&roots)?;
        check::require_equal(&types, &text)?;
        Ok(text)
    }
}

/// Whether a type has a definition of its own in IDL.
fn is_defined(graph: &TypeGraph, id: TypeNodeId) -> bool {
    let node = graph.node(id);
    let is_kind = matches!(
        node.kind,
        NodeKind::Structure(_)
            | NodeKind::Union(_)
            | NodeKind::Enumeration { .. }
            | NodeKind::Bitmask { .. }
            | NodeKind::Bitset(_)
    );
    is_kind && !node.name.is_empty() && !graph.is_any(id)
}

/// Returns the modules and the last part of a name.
fn parts_of(name: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = name.split("::").collect();
    let last = parts.pop().unwrap_or_default();
    (parts, last)
}

/// Printer of the definitions of types.
struct IdlPrinter<'a> {
    graph: &'a TypeGraph,
    out: String,
    /// Open modules.
    modules: Vec<String>,
    /// Types with a definition in the text, by name.
    printed: BTreeSet<&'a str>,
    /// Names that typedefs for arrays cannot have, in lower case, with their modules.
    taken: BTreeSet<String>,
    /// Names within modules, in lower case: a path that begins with one of them needs a leading
    /// `::`.
    inner_names: BTreeSet<String>,
}

impl<'a> IdlPrinter<'a> {
    fn new(graph: &'a TypeGraph) -> Self {
        let (mut taken, mut inner_names) = (BTreeSet::new(), BTreeSet::new());
        for node in &graph.nodes {
            let name = node.name.to_ascii_lowercase();
            inner_names.extend(name.split("::").skip(1).map(str::to_owned));
            taken.insert(name);
        }
        let (out, modules, printed) = (String::new(), Vec::new(), BTreeSet::new());
        Self { graph, out, modules, printed, taken, inner_names }
    }

    fn print(mut self, roots: &[TypeNodeId]) -> Result<String, NotInIdl> {
        for &root in roots {
            for component in components(self.graph, root) {
                self.component(component)?;
            }
        }
        self.enter(&[])?;
        Ok(self.out)
    }

    /// Prints types that contain each other, or one type alone.
    fn component(&mut self, component: Vec<TypeNodeId>) -> Result<(), NotInIdl> {
        let graph = self.graph;
        let mut open: Vec<TypeNodeId> = component;
        open.retain(|&of| {
            is_defined(graph, of) && !self.printed.contains(graph.node(of).name.as_str())
        });
        open.sort_by_key(|&of| graph.node(of).name.as_str());
        if open.len() > 1 || open.first().is_some_and(|&only| reaches(graph, only, only)) {
            for &of in &open {
                self.forward(of)?;
            }
        }
        let mut needed: BTreeMap<TypeNodeId, Vec<TypeNodeId>> =
            open.iter().map(|&of| (of, in_place(graph, of))).collect();
        while !open.is_empty() {
            // Types whose values contain themselves have been refused, so there is a next one.
            let is_ready = |of: &TypeNodeId| {
                let parts = &needed[of];
                !parts.iter().any(|part| needed.contains_key(part))
            };
            let next = open.iter().position(is_ready).unwrap_or(0);
            let of = open.remove(next);
            needed.remove(&of);
            if self.printed.insert(graph.node(of).name.as_str()) {
                self.definition(of)?;
            }
        }
        Ok(())
    }

    fn forward(&mut self, of: TypeNodeId) -> Result<(), NotInIdl> {
        let node = self.graph.node(of);
        let kind = match node.kind {
            NodeKind::Structure(_) => "struct",
            NodeKind::Union(_) => "union",
            _ => return Ok(()),
        };
        let (modules, name) = parts_of(&node.name);
        self.enter(&modules)?;
        let name = self.identifier(of, name)?;
        self.line(0, &format!("{kind} {name};"));
        Ok(())
    }

    /// Closes and opens modules until exactly these are open.
    fn enter(&mut self, modules: &[&str]) -> Result<(), NotInIdl> {
        let names: Option<Vec<String>> = modules.iter().map(|module| identifier(module)).collect();
        let Some(names) = names else {
            let reason = "the name of a module is no identifier of IDL".to_owned();
            return Err(NotInIdl { name: modules.join("::"), reason });
        };
        let same = names.iter().zip(&self.modules).take_while(|(a, b)| a == b).count();
        while self.modules.len() > same {
            self.modules.pop();
            self.line(0, "};");
        }
        for name in names.into_iter().skip(same) {
            self.line(0, &format!("module {name} {{"));
            self.modules.push(name);
        }
        Ok(())
    }

    /// Adds a line, indented by the open modules and more levels.
    fn line(&mut self, level: usize, text: &str) {
        let level = self.modules.len() + level;
        for _ in 0..level {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Returns a name within a type as IDL has it.
    fn identifier(&self, of: TypeNodeId, name: &str) -> Result<String, NotInIdl> {
        identifier(name).ok_or_else(|| NotInIdl {
            name: self.graph.node(of).name.clone(),
            reason: format!("`{}` is no identifier of IDL", name.escape_default()),
        })
    }

    /// Returns the name of a type for a use in the open module.
    fn reference(&self, of: TypeNodeId) -> Result<String, NotInIdl> {
        let (modules, name) = parts_of(&self.graph.node(of).name);
        let name = self.identifier(of, name)?;
        let mut path = Vec::new();
        for module in modules {
            path.push(self.identifier(of, module)?);
        }
        if path == self.modules {
            return Ok(name);
        }
        path.push(name);
        let first = path[0].trim_start_matches('_').to_ascii_lowercase();
        let root = if self.inner_names.contains(&first) { "::" } else { "" };
        Ok(format!("{root}{}", path.join("::")))
    }
}

/// Returns the types whose values are a part of a type's value in place, so that IDL needs their
/// definitions first.
fn in_place(graph: &TypeGraph, of: TypeNodeId) -> Vec<TypeNodeId> {
    let through_arrays = |of: TypeNodeId| {
        let mut of = graph.resolved(of);
        while let NodeKind::Array { element, .. } = graph.kind(of) {
            of = graph.resolved(element.of);
        }
        of
    };
    match graph.kind(of) {
        NodeKind::Structure(Structure { base, members, .. }) => {
            let present = members.iter().filter(|member| !member.external && !member.optional);
            base.iter()
                .copied()
                .chain(present.map(|member| member.of))
                .map(through_arrays)
                .collect()
        }
        NodeKind::Union(union) => {
            let members = union.cases.iter().filter_map(|case| case.member.as_ref());
            let present = members.filter(|member| !member.external);
            present.map(|member| through_arrays(member.of)).collect()
        }
        _ => Vec::new(),
    }
}
