//! `#pragma`.
//!
//! Owns the spellings of the pragmas that have a meaning: `keylist`, `DCPS_DATA_TYPE`,
//! `DCPS_DATA_KEY`, and `prefix` and related ones. Never does: apply them to types; a later
//! stage does.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::source::Span;

use super::Preprocessor;

/// A pragma, and the token it precedes.
#[derive(Clone, Debug)]
pub(crate) struct Pragma {
    pub(crate) kind: PragmaKind,
    pub(crate) span: Span,
    pub(crate) before: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PragmaKind {
    /// Key of a type: `#pragma keylist Type member member`.
    KeyList { ty: String, members: Vec<String> },
    /// A topic type: `#pragma DCPS_DATA_TYPE "Module::Type"`.
    DataType { ty: String },
}

/// Names of the known pragmas.
const PRAGMAS: [&str; 7] =
    ["keylist", "DCPS_DATA_TYPE", "DCPS_DATA_KEY", "prefix", "ID", "version", "once"];

impl Preprocessor<'_> {
    /// Reads a pragma; returns whether its file must be read only once.
    pub(super) fn pragma(&mut self, lexer: &mut Lexer, hash: Span) -> bool {
        let (first, _) = lexer.next(&mut Vec::new(), self.reports);
        let name = Lexer::macro_name(&first.kind).unwrap_or_default();
        let span = hash.to(first.span);
        let kind = match &*name {
            "keylist" => {
                let tokens = self.line_tokens(lexer);
                self.key_list(&tokens, span)
            }
            "DCPS_DATA_TYPE" => {
                let tokens = self.line_tokens(lexer);
                let ty = words(&tokens).into_iter().next();
                if ty.is_none() {
                    let text = "expected #pragma DCPS_DATA_TYPE \"Module::Type\"";
                    self.reports.error(span, text);
                }
                ty.map(|ty| PragmaKind::DataType { ty })
            }
            "DCPS_DATA_KEY" => {
                let tokens = self.line_tokens(lexer);
                self.key_list(&tokens, span)
            }
            // Repository names and `once` have no effect on a DDS type.
            "prefix" | "ID" | "version" | "once" => None,
            _ => {
                let guess = crate::diagnostic::did_you_mean(&name, PRAGMAS);
                let text =
                    format!("the pragma `{}` is not known and has no effect{guess}", first.text());
                self.reports.warning(span, text);
                None
            }
        };
        let before = self.out.tokens.len();
        self.out.pragmas.extend(kind.map(|kind| Pragma { kind, span, before }));
        &*name == "once"
    }

    /// Reads the type and its key members, separated by whitespace or commas, with or
    /// without quotes.
    fn key_list(&mut self, tokens: &[Token], span: Span) -> Option<PragmaKind> {
        let mut words = words(tokens).into_iter();
        let Some(ty) = words.next() else {
            self.reports.error(span, "expected a type and the members of its key");
            return None;
        };
        Some(PragmaKind::KeyList { ty, members: words.collect() })
    }
}

/// Returns the names in a line: `A::B`, `a.b`, or several in one string.
fn words(tokens: &[Token]) -> Vec<String> {
    let mut text = String::new();
    for token in tokens {
        match &token.kind {
            TokenKind::String { value, .. } => text = format!("{text} {value} "),
            TokenKind::Mark("::" | ".") => text += &token.text(),
            TokenKind::Mark(",") => text.push(' '),
            // A name after `::` belongs to the same path; a number such as `.5` cannot occur here.
            _ if token.spaced => text = format!("{text} {}", token.text()),
            _ => text += &token.text(),
        }
    }
    text.split_whitespace().map(str::to_owned).collect()
}
