//! Scopes: the declared names and their meanings.
//!
//! Owns the rules of IDL for declaring and finding names. Names that differ only in case are the
//! same and must be written the same. Enumerators belong to the scope around their enum. A name is
//! looked up from the inside out and in the bases of interfaces. A name that was used in a scope
//! keeps its meaning there.

use std::collections::HashMap;
use std::rc::Rc;

use crate::annotation::DeclaredAnnotation;
use crate::constant::Value;
use crate::diagnostic::{Checked, Reports, did_you_mean};
use crate::keyword::keyword;
use crate::model::{Type, TypeNotes};
use crate::source::Span;
use crate::syntax::{Name, Path};

/// Number of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId(usize);

/// Meaning of a name.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    Module(ScopeId),
    Interface(ScopeId),
    /// `interface A;`, whose body has not been read yet.
    ForwardInterface,
    /// A complete type.
    Type(Type),
    /// A struct or union that was declared but is not complete.
    Incomplete(Type),
    Constant(Rc<(Type, Value)>),
    Enumerator(Value),
    /// A user's annotation.
    Annotation(Rc<DeclaredAnnotation>),
    /// A construct that a DDS file does not need, and its kind.
    Skipped(&'static str),
}

impl Meaning {
    /// Kind of the meaning, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Module(_) => "the module",
            Self::Interface(_) | Self::ForwardInterface => "the interface",
            Self::Type(_) | Self::Incomplete(_) => "the type",
            Self::Constant(_) => "the constant",
            Self::Enumerator(_) => "the enumerator",
            Self::Annotation(_) => "the annotation",
            Self::Skipped(what) => what,
        }
    }
}

struct Entry {
    spelling: Rc<str>,
    span: Span,
    meaning: Meaning,
}

struct Scope {
    parent: Option<ScopeId>,
    name: Rc<str>,
    entries: HashMap<String, Entry>,
    /// Scopes of base interfaces.
    bases: Vec<ScopeId>,
    /// Names of enclosing scopes that were used here, and the positions of the uses.
    used: HashMap<String, Span>,
    /// Defaults for the contents from `@default_nested` and similar annotations.
    defaults: TypeNotes,
}

/// All scopes and their names.
pub(crate) struct Scopes {
    all: Vec<Scope>,
    pub(crate) here: ScopeId,
    /// Whether the members of a type are being read. Names used there are introduced into the
    /// type's own scope, where no conflicting definition is possible.
    pub(crate) in_body: bool,
}

const ROOT: ScopeId = ScopeId(0);

impl Scopes {
    pub(crate) fn new() -> Self {
        let root = Scope {
            parent: None,
            name: "".into(),
            entries: HashMap::new(),
            bases: Vec::new(),
            used: HashMap::new(),
            defaults: TypeNotes::default(),
        };
        Self { all: vec![root], here: ROOT, in_body: false }
    }

    fn scope(&self, id: ScopeId) -> &Scope {
        &self.all[id.0]
    }

    /// Adds a new scope inside the open one.
    pub(crate) fn add(&mut self, name: &Rc<str>, bases: Vec<ScopeId>) -> ScopeId {
        let id = ScopeId(self.all.len());
        self.all.push(Scope {
            parent: Some(self.here),
            name: Rc::clone(name),
            entries: HashMap::new(),
            bases,
            used: HashMap::new(),
            defaults: self.scope(self.here).defaults.clone(),
        });
        id
    }

    pub(crate) fn open(&mut self, scope: ScopeId) {
        self.here = scope;
    }

    pub(crate) fn close(&mut self) {
        self.here = self.scope(self.here).parent.unwrap_or(ROOT);
    }

    pub(crate) fn defaults(&self) -> &TypeNotes {
        &self.scope(self.here).defaults
    }

    pub(crate) fn set_defaults(&mut self, defaults: TypeNotes) {
        self.all[self.here.0].defaults = defaults;
    }

    /// Returns the names of the open scopes, the outermost first.
    pub(crate) fn modules(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut scope = self.scope(self.here);
        while let Some(parent) = scope.parent {
            names.push(scope.name.to_string());
            scope = self.scope(parent);
        }
        names.reverse();
        names
    }

    /// Whether the open scope has exactly this typedef already: each file of a ROS 2 package
    /// declares the arrays that it uses.
    pub(crate) fn has_typedef(&self, name: &Name, alias: &Type) -> bool {
        let entry = self.scope(self.here).entries.get(&name.text.to_ascii_lowercase());
        entry.is_some_and(|entry| {
            entry.spelling == name.text
                && matches!(&entry.meaning, Meaning::Type(before) if before == alias)
        })
    }

    /// Declares a name in the open scope.
    pub(crate) fn declare(
        &mut self,
        name: &Name,
        meaning: Meaning,
        reports: &mut Reports,
    ) -> Checked<()> {
        let key = name.text.to_ascii_lowercase();
        let scope = &mut self.all[self.here.0];
        if let Some(entry) = scope.entries.get_mut(&key) {
            let again = match (&entry.meaning, &meaning) {
                (Meaning::Incomplete(a), Meaning::Incomplete(b) | Meaning::Type(b)) => a == b,
                (Meaning::Type(a), Meaning::Incomplete(b)) => a == b,
                (Meaning::ForwardInterface, Meaning::Interface(_) | Meaning::ForwardInterface)
                | (Meaning::Interface(_), Meaning::ForwardInterface)
                | (Meaning::Skipped(_), Meaning::Skipped(_)) => true,
                _ => false,
            };
            let spelling = &entry.spelling;
            if *spelling == name.text && again {
                let keeps = matches!(
                    (&entry.meaning, &meaning),
                    (Meaning::Type(_), Meaning::Incomplete(_))
                        | (Meaning::Interface(_), Meaning::ForwardInterface)
                );
                if !keeps {
                    entry.meaning = meaning;
                }
                return Ok(());
            }
            let text = &name.text;
            let message = if *spelling == *text {
                format!("`{text}` is defined already in this scope; rename one of the two")
            } else {
                format!(
                    "`{text}` and `{spelling}`, defined already in this scope, differ only in \
                     case; rename one of the two"
                )
            };
            return Err(reports.error_with(name.span, message, entry.span, "defined here"));
        }
        if let Some(used) = scope.used.get(&key) {
            let message = format!(
                "`{}` was used above in this scope with another meaning; rename this one, or use \
                 the full name of the other one",
                name.text
            );
            return Err(reports.error_with(name.span, message, *used, "used here"));
        }
        let entry = Entry { spelling: Rc::clone(&name.text), span: name.span, meaning };
        scope.entries.insert(key, entry);
        Ok(())
    }

    /// Returns the scope of a module that was declared before in the open scope.
    pub(crate) fn reopened(&self, name: &Name) -> Option<ScopeId> {
        let entry = self.scope(self.here).entries.get(&name.text.to_ascii_lowercase())?;
        match entry.meaning {
            Meaning::Module(id) if entry.spelling == name.text => Some(id),
            _ => None,
        }
    }

    /// Looks up a name from the open scope.
    pub(crate) fn find(&mut self, path: &Path, reports: &mut Reports) -> Checked<Meaning> {
        self.find_or(path, &[], reports)
    }

    /// Looks up like [`Scopes::find`], with further words to suggest.
    pub(crate) fn find_or(
        &mut self,
        path: &Path,
        words: &[&str],
        reports: &mut Reports,
    ) -> Checked<Meaning> {
        let first = &path.parts[0];
        let key = first.text.to_ascii_lowercase();
        let mut scope = if path.absolute { Some(ROOT) } else { Some(self.here) };
        let mut found = None;
        while let Some(id) = scope {
            if let Some(entry) = self.entry(id, &key, 0) {
                found = Some((entry, id));
                break;
            }
            scope = self.scope(id).parent;
        }
        let Some((entry, id)) = found else {
            if path.parts.len() == 1
                && let Some(keyword) = keyword(&first.text).filter(|_| !path.absolute)
                && *keyword != *first.text
            {
                let text = &first.text;
                let text =
                    format!("`{text}` is spelt `{keyword}` in IDL; did you mean `{keyword}`?");
                return Err(reports.error(path.span, text));
            }
            let names = self.visible();
            let candidates = names.iter().map(|name| &**name).chain(words.iter().copied());
            let guess = did_you_mean(&first.text, candidates);
            let text = match of_other_languages(path).filter(|_| !words.is_empty()) {
                Some(spelt) => {
                    format!("there is no `{}` here; write `{spelt}` in IDL", path.text())
                }
                None => {
                    format!("there is no `{}` here; define it before its use{guess}", first.text)
                }
            };
            return Err(reports.error(path.span, text));
        };
        let mut meaning = spelt(entry, first, reports)?;
        let is_outside = id != self.here;
        if is_outside && !path.absolute && !self.in_body {
            self.all[self.here.0].used.entry(key).or_insert(first.span);
        }
        let mut before = first;
        for part in &path.parts[1..] {
            let scope = match meaning {
                Meaning::Module(id) | Meaning::Interface(id) => id,
                Meaning::Type(Type::Named(_, crate::model::NamedKind::Enum)) => {
                    let text = format!(
                        "`{}` is an enum; its enumerators belong to the scope around it: write \
                         `{}` with the enum's modules",
                        before.text, part.text
                    );
                    return Err(reports.error(path.span, text));
                }
                other => {
                    let text = format!("{} `{}` has no names inside", other.kind(), before.text);
                    return Err(reports.error(before.span, text));
                }
            };
            let Some(entry) = self.entry(scope, &part.text.to_ascii_lowercase(), 0) else {
                let names = self.scope(scope).entries.values().map(|entry| &*entry.spelling);
                let guess = did_you_mean(&part.text, names);
                let text = format!(
                    "there is no `{}` in `{}`; define it before its use{guess}",
                    part.text, before.text
                );
                return Err(reports.error(part.span, text));
            };
            meaning = spelt(entry, part, reports)?;
            before = part;
        }
        Ok(meaning)
    }

    /// Looks up a whole name in a pragma: from here outwards, or from the root.
    pub(crate) fn find_quietly(&self, name: &str) -> Option<&Meaning> {
        let parts: Vec<String> =
            name.split("::").filter(|part| !part.is_empty()).map(str::to_ascii_lowercase).collect();
        let mut scope = Some(self.here);
        while let Some(id) = scope {
            let mut at = Some(id);
            let mut meaning = None;
            for part in &parts {
                let entry = at.and_then(|id| self.entry(id, part, 0));
                meaning = entry.map(|entry| &entry.meaning);
                at = match meaning {
                    Some(Meaning::Module(id) | Meaning::Interface(id)) => Some(*id),
                    _ => None,
                };
            }
            if meaning.is_some() {
                return meaning;
            }
            scope = self.scope(id).parent;
        }
        None
    }

    /// Looks up a name in a scope or, for an interface, in its bases.
    fn entry(&self, scope: ScopeId, key: &str, depth: usize) -> Option<&Entry> {
        let scope = self.scope(scope);
        scope.entries.get(key).or_else(|| {
            // Bases were complete before, so there is no cycle; a very long chain is cut.
            let depth = depth + 1;
            let bases = if depth > 64 { &[][..] } else { &scope.bases };
            bases.iter().find_map(|base| self.entry(*base, key, depth))
        })
    }

    /// Returns all names that are visible here.
    fn visible(&self) -> Vec<Rc<str>> {
        let mut names: Vec<Rc<str>> = Vec::new();
        let mut scope = Some(self.here);
        while let Some(id) = scope {
            let scope_here = self.scope(id);
            names.extend(scope_here.entries.values().map(|entry| Rc::clone(&entry.spelling)));
            scope = scope_here.parent;
        }
        names.sort();
        names
    }
}

impl Default for Scopes {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the meaning of an entry, if the use is spelt like the definition.
fn spelt(entry: &Entry, name: &Name, reports: &mut Reports) -> Checked<Meaning> {
    if entry.spelling == name.text {
        return Ok(entry.meaning.clone());
    }
    let text = format!(
        "`{}` is spelt `{}` where it is defined; write it the same way",
        name.text, entry.spelling
    );
    Err(reports.error_with(name.span, text, entry.span, "defined here"))
}

/// Returns the IDL type for a type of C, C++ or another language.
fn of_other_languages(path: &Path) -> Option<&'static str> {
    Some(match path.text().trim_start_matches("::") {
        "int" => "long` or `int32",
        "uint" => "unsigned long` or `uint32",
        "bool" => "boolean",
        "byte" => "octet",
        "int8_t" | "std::int8_t" => "int8",
        "uint8_t" | "std::uint8_t" => "uint8",
        "int16_t" | "std::int16_t" => "int16",
        "uint16_t" | "std::uint16_t" => "uint16",
        "int32_t" | "std::int32_t" => "int32",
        "uint32_t" | "std::uint32_t" => "uint32",
        "int64_t" | "std::int64_t" => "int64",
        "uint64_t" | "std::uint64_t" | "size_t" | "std::size_t" => "uint64",
        "float32" => "float",
        "float64" => "double",
        "wchar_t" => "wchar",
        "str" => "string",
        "vector" | "std::vector" | "list" => "sequence",
        "std::map" => "map",
        _ => return None,
    })
}
