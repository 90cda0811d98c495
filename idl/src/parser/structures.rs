//! Parsing of structs, unions, enums, bitmasks and bitsets.

use crate::annotation::AnnotationPlace;
use crate::diagnostic::Checked;
use crate::source::Span;
use crate::syntax::{
    AnnotationsAndDocs, Bitfield, Bitset, Case, DefinitionKind, Enum, ForwardKind, Label, Literal,
    MemberDeclaration, Struct, Union,
};

use super::Parser;

impl Parser<'_> {
    /// Reads a struct, or an exception, which has the same syntax.
    pub(super) fn structure(&mut self, exception: bool) -> Checked<DefinitionKind> {
        self.advance();
        let name =
            self.name(if exception { "the name of an exception" } else { "the name of a struct" })?;
        if !exception && self.at(";") {
            return Ok(DefinitionKind::Forward { kind: ForwardKind::Struct, name });
        }
        let base =
            if !exception && self.take(":") { Some(self.path("the base struct")?) } else { None };
        let opened =
            self.expect(if base.is_some() || exception { "{" } else { "`:`, `;` or `{`" })?;
        let mut members = Vec::new();
        while !self.at("}") && !self.at_end() && !self.reports.is_full() {
            let (start, braces) = (self.next, self.braces);
            if self.member(&mut members, opened).is_err() {
                self.recover(start, braces);
                if self.begins_definition() {
                    break;
                }
            }
        }
        self.close(opened)?;
        Ok(DefinitionKind::Struct(Struct { name, base, members, exception }))
    }

    /// Reads a member of the struct whose brace was opened here.
    fn member(&mut self, into: &mut Vec<MemberDeclaration>, opened: Span) -> Checked<()> {
        let mut notes = self.notes()?;
        let ty = self.type_spec("a member")?;
        if self.at(";") && self.tokens[self.next - 1].is("}") {
            // A definition without a member belongs behind the struct.
            return Err(self.never_closed(opened));
        }
        let mut declarators = vec![self.declarator("the name of a member")?];
        while self.take(",") {
            declarators.push(self.declarator("the name of a member")?);
        }
        let ended = self.expect("`,`, `[` or `;`").map(drop);
        self.comments_after(&mut notes, AnnotationPlace::Member);
        into.push(MemberDeclaration { notes, ty, declarators });
        ended
    }

    /// Takes the comments after the construct as documentation and annotations.
    fn comments_after(&mut self, notes: &mut AnnotationsAndDocs, place: AnnotationPlace) {
        self.annotations_behind(notes, place);
        let behind = self.comment_behind();
        if !behind.is_empty() {
            if !notes.docs.is_empty() {
                notes.docs.push(String::new());
            }
            notes.docs.extend(behind);
        }
    }

    pub(super) fn union(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let name = self.name("the name of a union")?;
        if self.at(";") {
            return Ok(DefinitionKind::Forward { kind: ForwardKind::Union, name });
        }
        if !self.take_word("switch") {
            return Err(self.expected_one_of("`switch` or `;`", &["switch"]));
        }
        self.expect("(")?;
        let discriminator = self.type_spec("the discriminator")?;
        self.expect(")")?;
        let opened = self.expect("{")?;
        let mut cases = Vec::new();
        while !self.at("}") && !self.at_end() && !self.reports.is_full() {
            let (start, braces) = (self.next, self.braces);
            if self.case(&mut cases).is_err() {
                self.recover(start, braces);
                if self.begins_definition() {
                    break;
                }
            }
        }
        self.close(opened)?;
        Ok(DefinitionKind::Union(Union { name, discriminator, cases }))
    }

    fn case(&mut self, into: &mut Vec<Case>) -> Checked<()> {
        let mut notes = self.notes()?;
        let mut labels = Vec::new();
        loop {
            let span = self.peek().span;
            if self.take_word("case") {
                labels.push(Label::Case(self.expression()?));
            } else if self.take_word("default") {
                labels.push(Label::Default(span));
            } else {
                break;
            }
            self.expect(":")?;
        }
        if labels.is_empty() {
            return Err(self.expected_one_of("`case` or `default`", &["case", "default"]));
        }
        let inner = self.notes()?;
        if notes.docs.is_empty() {
            notes.docs = inner.docs;
        }
        notes.annotations.extend(inner.annotations);
        let ty = self.type_spec("the member of a case")?;
        let declarator = self.declarator("the name of a member")?;
        let ended = self.expect("`[` or `;`").map(drop);
        self.comments_after(&mut notes, AnnotationPlace::Case);
        into.push(Case { notes, labels, ty, declarator });
        ended
    }

    pub(super) fn enumeration(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let name = self.name("the name of an enum")?;
        let literals = self.literals("the name of an enumerator", true)?;
        Ok(DefinitionKind::Enum(Enum { name, literals }))
    }

    pub(super) fn bitmask(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let name = self.name("the name of a bitmask")?;
        let literals = self.literals("the name of a bit", false)?;
        Ok(DefinitionKind::Bitmask(Enum { name, literals }))
    }

    fn literals(&mut self, what: &str, values: bool) -> Checked<Vec<Literal>> {
        let place = if values { AnnotationPlace::Enumerator } else { AnnotationPlace::Flag };
        let opened = self.expect("{")?;
        let mut literals: Vec<Literal> = Vec::new();
        loop {
            let mut notes = self.notes()?;
            let name = self.name(what)?;
            let value = if values && self.take("=") { Some(self.expression()?) } else { None };
            // A comma after the last enumerator is common, though the standard has none.
            let more = self.take(",");
            self.comments_after(&mut notes, place);
            literals.push(Literal { notes, name, value });
            if !more || self.at("}") || self.reports.is_full() {
                break;
            }
        }
        if !self.at("}") && !self.at_end() {
            return Err(self.expected(if values { "`,`, `=` or `}`" } else { "`,` or `}`" }));
        }
        self.close(opened)?;
        Ok(literals)
    }

    pub(super) fn bitset(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let name = self.name("the name of a bitset")?;
        let base = if self.take(":") { Some(self.path("the base bitset")?) } else { None };
        let opened = self.expect(if base.is_some() { "{" } else { "`:` or `{`" })?;
        let mut fields = Vec::new();
        while !self.at("}") && !self.at_end() && !self.reports.is_full() {
            let (start, braces) = (self.next, self.braces);
            if self.bitfield(&mut fields).is_err() {
                self.recover(start, braces);
            }
        }
        self.close(opened)?;
        Ok(DefinitionKind::Bitset(Bitset { name, base, fields }))
    }

    fn bitfield(&mut self, into: &mut Vec<Bitfield>) -> Checked<()> {
        let mut notes = self.notes()?;
        if !self.take_word("bitfield") {
            return Err(self.expected_one_of("`bitfield`", &["bitfield"]));
        }
        self.expect("<")?;
        let bits = self.expression_in_angles()?;
        let ty = if self.take(",") { Some(self.type_spec("a bit field")?) } else { None };
        self.expect(if ty.is_some() { ">" } else { "`,` or `>`" })?;
        let mut names = Vec::new();
        if !self.at(";") {
            names.push(self.name("the name of a bit field, or `;`")?);
            // The standard has no separator between the names, but many files have commas.
            while self.take(",") || !self.at(";") {
                names.push(self.name("`,`, `;` or the name of a bit field")?);
            }
        }
        let ended = self.expect("`,` or `;`").map(drop);
        self.comments_after(&mut notes, AnnotationPlace::Bitfield);
        into.push(Bitfield { notes, bits, ty, names });
        ended
    }
}
