//! Parsing of definitions: modules, constants, typedefs, user's annotations. Other definitions are
//! parsed in the sibling files.

use crate::diagnostic::{Checked, did_you_mean};
use crate::lexer::TokenKind;
use crate::syntax::{
    AnnotationsAndDocs, Definition, DefinitionKind, Parameter, Path, Scope, TypeKind, TypeSpec,
};

use super::comment_annotations::place_of;
use super::{MAX_NESTING, Parser};

/// Words that begin a definition, for suggestions.
const DEFINITIONS: [&str; 12] = [
    "module",
    "struct",
    "union",
    "enum",
    "bitmask",
    "bitset",
    "typedef",
    "const",
    "exception",
    "interface",
    "valuetype",
    "native",
];

impl Parser<'_> {
    /// Reads definitions up to a closing brace or the end.
    pub(super) fn definitions(&mut self, into: &mut Vec<Definition>) {
        loop {
            self.pragmas_here(into);
            if self.reports.is_full() || self.at("}") || self.at_end() {
                return;
            }
            let (start, braces) = (self.next, self.braces);
            if self.definition(into).is_err() {
                self.recover(start, braces);
            }
        }
    }

    /// Adds the pragmas at this position as definitions, because a pragma takes effect from
    /// its position.
    fn pragmas_here(&mut self, into: &mut Vec<Definition>) {
        let at = self.next;
        while let Some(pragma) = self.pragmas.next_if(|pragma| pragma.before <= at) {
            into.push(Definition {
                notes: AnnotationsAndDocs::default(),
                kind: DefinitionKind::Pragma(pragma),
            });
        }
    }

    pub(super) fn definition(&mut self, into: &mut Vec<Definition>) -> Checked<()> {
        // A superfluous `;`, as C++ programmers write it, is accepted.
        if self.take(";") {
            return Ok(());
        }
        let mut notes = self.notes()?;
        let kind = match self.word() {
            "module" => self.module()?,
            "const" => self.constant()?,
            "typedef" => self.typedef(into)?,
            "struct" => self.structure(false)?,
            "exception" => self.structure(true)?,
            "union" => self.union()?,
            "enum" => self.enumeration()?,
            "bitmask" => self.bitmask()?,
            "bitset" => self.bitset()?,
            _ if self.at("@") => self.annotation_declaration()?,
            _ => match self.without_use()? {
                Some(kind) => kind,
                None => {
                    let what = "a definition (`module`, `struct`, `union`, `enum`, `bitmask`, \
                                `bitset`, `typedef`, `const` or another)";
                    return Err(self.expected_definition(what));
                }
            },
        };
        into.append(&mut self.inline);
        let ended = self.expect(";").map(drop);
        self.annotations_behind(&mut notes, place_of(&kind));
        into.push(Definition { notes, kind });
        ended
    }

    fn expected_definition(&mut self, what: &str) -> crate::diagnostic::ErrorReported {
        let word = self.word().to_owned();
        if did_you_mean(&word, DEFINITIONS).is_empty() {
            return self.expected(what);
        }
        self.expected_one_of("a definition", &DEFINITIONS)
    }

    fn module(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let name = self.name("the name of a module")?;
        if self.at("<") {
            let text = "template modules are not supported; write the module without parameters";
            let span = self.peek().span;
            return Err(self.reports.error(span, text));
        }
        let opened = self.expect("{")?;
        if self.at("}") {
            let text = format!("the module `{}` is empty", name.text);
            self.reports.warning(name.span, text);
        }
        let definitions = self.inside(name.span, opened)?;
        Ok(DefinitionKind::Module(Scope { name, definitions }))
    }

    /// Reads the definitions between the braces of a module or annotation.
    pub(super) fn inside(
        &mut self,
        name: crate::source::Span,
        opened: crate::source::Span,
    ) -> Checked<Vec<Definition>> {
        if self.modules >= MAX_NESTING {
            let text = format!("modules are nested more than {MAX_NESTING} deep; flatten them");
            return Err(self.reports.error(name, text));
        }
        self.modules += 1;
        let mut definitions = Vec::new();
        self.definitions(&mut definitions);
        self.modules -= 1;
        self.close(opened)?;
        Ok(definitions)
    }

    /// Reads a definition between `typedef` and the new name, as in `typedef struct A { ... } B;`,
    /// and returns its type.
    pub(super) fn defined_here(&mut self, into: &mut Vec<Definition>) -> Checked<Option<TypeSpec>> {
        let start = self.peek().span;
        let kind = match self.word() {
            "struct" => self.structure(false)?,
            "union" => self.union()?,
            "enum" => self.enumeration()?,
            "bitmask" => self.bitmask()?,
            "bitset" => self.bitset()?,
            _ => return Ok(None),
        };
        let name = match &kind {
            DefinitionKind::Struct(structure) => structure.name.clone(),
            DefinitionKind::Union(union) => union.name.clone(),
            DefinitionKind::Enum(literals) | DefinitionKind::Bitmask(literals) => {
                literals.name.clone()
            }
            DefinitionKind::Bitset(bitset) => bitset.name.clone(),
            DefinitionKind::Forward { name, .. } => {
                let text = format!("the members of `{}` and the new name of the type", name.text);
                return Err(self.expected(&text));
            }
            _ => return Ok(None),
        };
        let span = start.to(self.previous());
        let path = Path { absolute: false, span: name.span, parts: vec![name] };
        into.push(Definition { notes: AnnotationsAndDocs::default(), kind });
        Ok(Some(TypeSpec { kind: TypeKind::Named(path), annotations: Vec::new(), span }))
    }

    fn constant(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let ty = self.type_spec("the type of a constant")?;
        let name = self.name("the name of a constant")?;
        self.expect("=")?;
        let value = self.expression()?;
        Ok(DefinitionKind::Const { ty, name, value })
    }

    fn typedef(&mut self, into: &mut Vec<Definition>) -> Checked<DefinitionKind> {
        self.advance();
        let ty = match self.defined_here(into)? {
            Some(ty) => ty,
            None => self.type_spec("a type")?,
        };
        let mut declarators = vec![self.declarator("the new name of the type")?];
        while self.take(",") {
            declarators.push(self.declarator("the new name of the type")?);
        }
        Ok(DefinitionKind::Typedef { ty, declarators })
    }

    /// Reads `@annotation Name { long value default 1; };`
    fn annotation_declaration(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        self.advance();
        let name = self.name("the name of an annotation")?;
        let opened = self.expect("{")?;
        let (mut parameters, mut definitions) = (Vec::new(), Vec::new());
        while !self.at("}") && !self.at_end() && !self.reports.is_full() {
            let (start, braces) = (self.next, self.braces);
            let read = match self.word() {
                "enum" | "const" | "typedef" | "bitmask" => self.definition(&mut definitions),
                _ => self.parameter(&mut parameters),
            };
            if read.is_err() {
                self.recover(start, braces);
            }
        }
        self.close(opened)?;
        Ok(DefinitionKind::Annotation { name, parameters, definitions })
    }

    fn parameter(&mut self, into: &mut Vec<Parameter>) -> Checked<()> {
        let ty = self.type_spec("a parameter of the annotation")?;
        if !matches!(
            ty.kind,
            TypeKind::Primitive(_) | TypeKind::String { .. } | TypeKind::Any | TypeKind::Named(_)
        ) {
            let text = "a parameter of an annotation is of a basic type, a string, an enum or any";
            return Err(self.reports.error(ty.span, text));
        }
        let name = self.name("the name of a parameter")?;
        let default = if self.take_word("default") { Some(self.expression()?) } else { None };
        into.push(Parameter { ty, name, default });
        self.expect("`default` or `;`").map(drop)
    }

    /// Skips up to the next `;` without reading the contents of lists in parentheses or braces.
    pub(super) fn skip_to_semicolon(&mut self) -> Checked<()> {
        let start = self.peek().span;
        let mut open: Vec<&'static str> = Vec::new();
        loop {
            match self.peek().kind {
                TokenKind::End => {
                    return Err(self.reports.error(start, "this is never closed, expected `;`"));
                }
                TokenKind::Mark(";") if open.is_empty() => return Ok(()),
                TokenKind::Mark("}") if open.is_empty() => return Err(self.expected("`;`")),
                TokenKind::Mark("{") => open.push("}"),
                TokenKind::Mark("(") => open.push(")"),
                TokenKind::Mark(mark @ ("}" | ")")) => {
                    let Some(wanted) = open.pop() else { return Err(self.expected("`;`")) };
                    if wanted != mark {
                        return Err(self.expected(&format!("`{wanted}`")));
                    }
                }
                _ => {}
            }
            if open.len() > MAX_NESTING {
                return Err(self.reports.error(start, "this is nested too deep"));
            }
            self.advance();
        }
    }
}
