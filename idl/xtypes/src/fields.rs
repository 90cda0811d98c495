//! Members of a run-time type by name, for code that reads many samples.
//!
//! Owns: resolution of paths, and the kind of value at their ends. Never looks at a sample.

use idl_cdr::{MemberPath, PathError, PathStep, ResolvedStep};

use crate::data::{ValueStep, part_of};
use crate::model::NodeKind;
use crate::{DynamicType, Primitive};

/// Kind of the values of a type, as far as comparisons need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A number, boolean or character.
    Primitive(Primitive),
    /// A string of 8 or 16 bits.
    Text,
    /// A decimal number.
    Fixed,
    /// An enum: names and values.
    Enumeration(Vec<(String, i32)>),
    /// A bitmask.
    Bitmask,
    /// A sequence or array.
    Collection,
    /// A map.
    Map,
    /// A type with members.
    Aggregate,
}

impl DynamicType {
    /// Returns the kind of the values.
    pub fn value_kind(&self) -> ValueKind {
        match self.graph.kind(self.root) {
            NodeKind::Primitive(primitive) => ValueKind::Primitive(*primitive),
            NodeKind::Text { .. } => ValueKind::Text,
            NodeKind::Fixed { .. } => ValueKind::Fixed,
            NodeKind::Enumeration { literals, .. } => ValueKind::Enumeration(
                literals.iter().map(|one| (one.name.text.to_string(), one.value)).collect(),
            ),
            NodeKind::Bitmask { .. } => ValueKind::Bitmask,
            NodeKind::Sequence { .. } | NodeKind::Array { .. } => ValueKind::Collection,
            NodeKind::Map { .. } => ValueKind::Map,
            NodeKind::Bitset(_)
            | NodeKind::Structure(_)
            | NodeKind::Union(_)
            | NodeKind::Alias(_)
            | NodeKind::Later => ValueKind::Aggregate,
        }
    }

    /// Returns the names of the members, if there are any; for a struct those of its base first.
    pub fn member_names(&self) -> Vec<String> {
        match self.graph.kind(self.graph.resolved(self.root)) {
            NodeKind::Structure(structure) => {
                let members = self.graph.members(structure);
                members.iter().map(|member| member.name.text.to_string()).collect()
            }
            NodeKind::Bitset(fields) => {
                fields.iter().map(|field| field.name.text.to_string()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Resolves a path in values of this type: `position[1]`, `names["a"].x`. Returns the path and
    /// the type of the part.
    ///
    /// ```
    /// use idl_cdr::{DdsType, ValueRef};
    /// use idl_xtypes::{DynamicData, DynamicType};
    ///
    /// #[derive(DdsType)]
    /// #[dds(crate = "idl_cdr")]
    /// struct Track { name: String, position: [f64; 2] }
    ///
    /// let of = DynamicType::of::<Track>();
    /// let (path, _) = of.member("position[1]")?;
    /// let track = DynamicData::parse(&of, "{position: [1, 4.5]}").unwrap();
    /// assert!(matches!(path.find(&track), ValueRef::Double(4.5)));
    /// assert!(of.member("speed").is_err());
    /// # Ok::<(), idl_cdr::PathError>(())
    /// ```
    pub fn member(&self, path: &str) -> Result<(MemberPath, DynamicType), PathError> {
        let graph = &self.graph;
        let (mut of, mut steps) = (graph.resolved(self.root), Vec::new());
        for (offset, step) in idl_cdr::parse_path(path)? {
            let fail = |reason| PathError { path: path.to_owned(), offset, reason };
            let (part, next) = part_of(graph, of, &step).map_err(fail)?;
            steps.push(match (part, step) {
                (ValueStep::Place(place), _) => ResolvedStep::Part(place),
                (ValueStep::Case(case), _) => ResolvedStep::Part(case + 1),
                (ValueStep::Key(_), PathStep::Index(number)) => ResolvedStep::Number(number),
                (ValueStep::Key(_), PathStep::Key(text) | PathStep::Member(text)) => {
                    ResolvedStep::Text(text)
                }
            });
            of = graph.resolved(next);
        }
        Ok((MemberPath::of_steps(steps), DynamicType { graph: graph.clone(), root: of }))
    }
}
