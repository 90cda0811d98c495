//! Parsing of annotations: `@key`, `@id(3)`, `@range(min = 0, max = 10)`.

use crate::diagnostic::Checked;
use crate::lexer::TokenKind;
use crate::syntax::{Annotation, AnnotationsAndDocs, Arguments};

use super::Parser;

/// Maximum number of annotations of one construct, and of arguments of one annotation.
const MAX_ANNOTATIONS: usize = 256;

impl Parser<'_> {
    /// Reads the comments and annotations before a definition or a part of one.
    pub(super) fn notes(&mut self) -> Checked<AnnotationsAndDocs> {
        let docs = self.comments_before();
        let annotations = self.annotations()?;
        let docs =
            if docs.is_empty() && !annotations.is_empty() { self.comments_before() } else { docs };
        Ok(AnnotationsAndDocs { docs, annotations })
    }

    pub(super) fn annotations(&mut self) -> Checked<Vec<Annotation>> {
        let mut annotations = Vec::new();
        // `@annotation` declares an annotation, and is a definition.
        while self.at("@") && self.peek_second().word() != Some("annotation") {
            annotations.push(self.annotation()?);
            if annotations.len() > MAX_ANNOTATIONS {
                let span = self.previous();
                return Err(self.reports.error(span, "there are too many annotations here"));
            }
        }
        Ok(annotations)
    }

    fn annotation(&mut self) -> Checked<Annotation> {
        let start = self.peek().span;
        self.advance();
        let path = self.annotation_name()?;
        let mut arguments = Arguments::None;
        if self.take("(") {
            arguments = self.arguments()?;
            self.expect("`,` or `)`")?;
        }
        Ok(Annotation { path, arguments, span: start.to(self.previous()) })
    }

    /// Reads the name of an annotation, which may be a keyword: `@default`.
    fn annotation_name(&mut self) -> Checked<crate::syntax::Path> {
        if self.word() == "default" {
            let span = self.peek().span;
            self.advance();
            let name = crate::syntax::Name { text: "default".into(), span };
            return Ok(crate::syntax::Path { absolute: false, parts: vec![name], span });
        }
        self.path("the name of an annotation after `@`")
    }

    fn arguments(&mut self) -> Checked<Arguments> {
        if self.at(")") {
            return Ok(Arguments::None);
        }
        let is_name = matches!(self.peek().kind, TokenKind::Word { .. });
        if !is_name || !self.peek_second().is("=") {
            return Ok(Arguments::One(self.expression()?));
        }
        let mut named = Vec::new();
        loop {
            let name = self.name("the name of a parameter")?;
            self.expect("=")?;
            named.push((name, self.expression()?));
            if named.len() > MAX_ANNOTATIONS || !self.take(",") || self.at(")") {
                return Ok(Arguments::Named(named));
            }
        }
    }
}
