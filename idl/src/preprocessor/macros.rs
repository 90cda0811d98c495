//! `#define` and the expansion of macros.
//!
//! Owns expansion: a macro is not expanded again within its own result (each token carries the
//! macros it came from), arguments are expanded before they are substituted, and `#` and `##` work.
//! The total output of all expansions is limited.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::source::Span;

use super::Preprocessor;

/// Maximum number of queued tokens in an expansion.
const MAX_EXPANSION: usize = 200_000;

/// Maximum number of tokens that all macros of a run may produce.
const MAX_EXPANDED: usize = 500_000;

/// Maximum nesting depth of macro uses inside arguments.
const MAX_ARGUMENT_DEPTH: usize = 64;

/// Maximum depth of expansions that result from other expansions.
const MAX_EXPANSION_DEPTH: usize = 200;

/// A macro.
#[derive(Debug)]
pub(super) struct Macro {
    /// Names of the parameters; `None` for a macro without parentheses.
    parameters: Option<Vec<Rc<str>>>,
    /// Whether the last parameter takes all remaining arguments (`...`).
    variadic: bool,
    pub(super) body: Vec<Token>,
    defined: Span,
}

/// Macros from whose expansion a token comes.
#[derive(Debug)]
struct ExpansionOrigin {
    name: Rc<str>,
    depth: usize,
    from: Option<Rc<ExpansionOrigin>>,
}

/// Source of the token after the queued ones.
type TokenSource<'m, 'a> = &'m mut dyn FnMut(&mut Preprocessor<'a>) -> Option<Token>;

/// A queued token, and its origin.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    token: Token,
    origin: Option<Rc<ExpansionOrigin>>,
}

impl Queued {
    pub(super) fn kind(&self) -> &TokenKind {
        &self.token.kind
    }

    fn comes_out_of(&self, name: &str) -> bool {
        let mut origin = self.origin.as_deref();
        while let Some(ExpansionOrigin { name: from, from: next, .. }) = origin {
            if &**from == name {
                return true;
            }
            origin = next.as_deref();
        }
        false
    }

    fn depth(&self) -> usize {
        self.origin.as_ref().map_or(0, |origin| origin.depth)
    }
}

impl From<Token> for Queued {
    fn from(token: Token) -> Self {
        Self { token, origin: None }
    }
}

impl<'a> Preprocessor<'a> {
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || is_built_in(name)
    }

    /// Reads `#define`, from after the word to the end of the line.
    pub(super) fn define(&mut self, lexer: &mut Lexer) {
        let Some((name, span)) = self.macro_name(lexer, "#define") else { return };
        let mut body = self.line_tokens(lexer);
        let mut parameters = None;
        let mut variadic = false;
        // After whitespace, the parenthesis belongs to the macro's body.
        if body.first().is_some_and(|token| token.is("(") && !token.spaced) {
            let Some((names, dots, rest)) = self.parameters(&body) else { return };
            parameters = Some(names);
            variadic = dots;
            body = rest;
        }
        if let Some(token) = body.first_mut() {
            token.spaced = false;
        }
        let new = Macro { parameters, variadic, body, defined: span };
        if let Some(old) = self.macros.get(&name)
            && !same(old, &new)
        {
            let (text, at) = (
                format!("the macro `{name}` is already defined differently; #undef it first"),
                old.defined,
            );
            self.reports.error_with(span, text, at, "defined here");
            return;
        }
        self.macros.insert(name, Rc::new(new));
    }

    /// Reads `(a, b, ...)`; returns the names, whether the last takes the rest, and the tokens
    /// after the list.
    fn parameters(&mut self, tokens: &[Token]) -> Option<(Vec<Rc<str>>, bool, Vec<Token>)> {
        let mut names: Vec<Rc<str>> = Vec::new();
        let mut rest = tokens[1..].iter();
        let mut last = tokens[0].span;
        if rest.clone().next().is_some_and(|token| token.is(")")) {
            rest.next();
            return Some((names, false, rest.cloned().collect()));
        }
        loop {
            let token = rest.next();
            last = token.map_or(last, |token| token.span);
            let name = token.and_then(|token| match Lexer::macro_name(&token.kind) {
                None if token.is("...") => Some("__VA_ARGS__".into()),
                name => name,
            });
            let Some(name) = name else {
                self.reports.error(last, "expected the name of a parameter of the macro");
                return None;
            };
            if names.contains(&name) {
                self.reports.error(last, format!("the macro has two parameters `{name}`"));
                return None;
            }
            let variadic = &*name == "__VA_ARGS__";
            names.push(name);
            let end = rest.next();
            last = end.map_or(last, |token| token.span);
            match end {
                Some(token) if token.is(")") => {
                    return Some((names, variadic, rest.cloned().collect()));
                }
                Some(token) if token.is(",") && !variadic => {}
                _ => {
                    self.reports.error(last, "expected `,` or `)` in the macro's parameters");
                    return None;
                }
            }
        }
    }

    /// Returns the next token after macro expansion.
    pub(super) fn next_expanded(&mut self) -> Option<Token> {
        // Most tokens need no expansion.
        loop {
            let queued = match self.queue.pop_front() {
                Some(queued) => queued,
                None => Queued::from(self.next_raw()?),
            };
            if !matches!(queued.token.kind, TokenKind::Word { .. }) {
                return Some(queued.token);
            }
            let mut queue = std::mem::take(&mut self.queue);
            let expanded = self.expand_one(&queued, &mut queue, &mut |this| this.next_raw());
            if !self.stopped {
                self.queue = queue;
            }
            if !expanded {
                return Some(queued.token);
            }
        }
    }

    /// Expands all given tokens, as for an argument or a condition.
    pub(super) fn expand_all(&mut self, tokens: Vec<Queued>) -> Vec<Queued> {
        let mut queue: VecDeque<Queued> = tokens.into();
        let mut out = Vec::new();
        while let Some(queued) = queue.pop_front() {
            if out.len() > MAX_EXPANSION {
                self.stop(queued.token.span, "the expansion of macros is too long here");
            }
            if self.stopped {
                return Vec::new();
            }
            if !self.expand_one(&queued, &mut queue, &mut |_| None) {
                out.push(queued);
            }
        }
        out
    }

    /// If a token is a macro, puts its expansion in front of the queue.
    fn expand_one(
        &mut self,
        queued: &Queued,
        queue: &mut VecDeque<Queued>,
        more: TokenSource<'_, 'a>,
    ) -> bool {
        let Some(name) = Lexer::macro_name(&queued.token.kind) else { return false };
        if is_built_in(&name) {
            return self.built_in(&name, queued, queue);
        }
        let Some(found) = self.macros.get(&name) else { return false };
        if queued.comes_out_of(&name) {
            return false;
        }
        let found = Rc::clone(found);
        let span = queued.token.span;
        if queued.depth() >= MAX_EXPANSION_DEPTH || queue.len() > MAX_EXPANSION {
            self.stop(span, &format!("the expansion of the macro `{name}` is too long here"));
            return true;
        }
        let mut arguments = Vec::new();
        if let Some(parameters) = &found.parameters {
            // A function-like macro without arguments is an ordinary name.
            let Some(next) = take(self, queue, more) else { return false };
            if !next.token.is("(") {
                queue.push_front(next);
                return false;
            }
            match self.arguments(queued, parameters.len(), found.variadic, queue, more) {
                Some(read) => arguments = read,
                None => return true,
            }
        }
        let depth = queued.depth() + 1;
        let origin = Rc::new(ExpansionOrigin { name, depth, from: queued.origin.clone() });
        self.argument_depth += 1;
        let body = if self.argument_depth > MAX_ARGUMENT_DEPTH {
            self.stop(span, "the arguments of macros are nested too deep");
            Vec::new()
        } else {
            self.substitute(&found, &arguments, queued, &origin)
        };
        self.argument_depth -= 1;
        self.expanded += body.len();
        if body.len() + queue.len() > MAX_EXPANSION || self.expanded > MAX_EXPANDED {
            self.stop(
                span,
                &format!("the expansion of the macro `{}` is too long here", origin.name),
            );
            return true;
        }
        for part in body.into_iter().rev() {
            queue.push_front(part);
        }
        true
    }

    /// Reads the arguments after `(`, up to the matching `)`.
    fn arguments(
        &mut self,
        name: &Queued,
        wanted: usize,
        variadic: bool,
        queue: &mut VecDeque<Queued>,
        more: TokenSource<'_, 'a>,
    ) -> Option<Vec<Vec<Queued>>> {
        let mut arguments = vec![Vec::new()];
        let (mut depth, mut length) = (0, 0);
        loop {
            let Some(next) = take(self, queue, more) else {
                let text = format!("the arguments of `{}` have no `)`", name.token.text());
                self.reports.error(name.token.span, text);
                return None;
            };
            length += 1;
            if length > MAX_EXPANSION {
                self.stop(name.token.span, "the macro's arguments are too long");
                return None;
            }
            let takes_rest = variadic && arguments.len() == wanted;
            match &next.token.kind {
                TokenKind::Mark(")") if depth == 0 => break,
                TokenKind::Mark(",") if depth == 0 && !takes_rest => {
                    arguments.push(Vec::new());
                    continue;
                }
                TokenKind::Mark("(") => depth += 1,
                TokenKind::Mark(")") => depth -= 1,
                _ => {}
            }
            if let Some(argument) = arguments.last_mut() {
                argument.push(next);
            }
        }
        if wanted == 0 && arguments.len() == 1 && arguments[0].is_empty() {
            return Some(Vec::new());
        }
        if variadic && arguments.len() + 1 == wanted {
            arguments.push(Vec::new());
        }
        if arguments.len() != wanted {
            let text = format!(
                "the macro `{}` takes {wanted} argument{}, found {}",
                name.token.text(),
                if wanted == 1 { "" } else { "s" },
                arguments.len()
            );
            self.reports.error(name.token.span, text);
            return None;
        }
        Some(arguments)
    }

    /// Returns the body with the arguments substituted. All tokens get the position of the
    /// macro's use.
    fn substitute(
        &mut self,
        of: &Macro,
        arguments: &[Vec<Queued>],
        used: &Queued,
        origin: &Rc<ExpansionOrigin>,
    ) -> Vec<Queued> {
        let parameter = |token: &Token| {
            let name = Lexer::macro_name(&token.kind)?;
            of.parameters.as_ref()?.iter().position(|parameter| *parameter == name)
        };
        let mut out: Vec<Queued> = Vec::new();
        let mut index = 0;
        while let Some(token) = of.body.get(index) {
            let next = of.body.get(index + 1);
            index += 1;
            if token.is("##") {
                if let (Some(next), Some(left)) = (next, out.pop()) {
                    index += 1;
                    let right = match parameter(next) {
                        Some(argument) => arguments[argument].clone(),
                        None => vec![Queued::from(next.clone())],
                    };
                    out.extend(self.paste(left, right, used));
                }
            } else if token.is("#")
                && let Some(argument) = next.and_then(parameter)
            {
                index += 1;
                let value = spell(&arguments[argument]).into();
                let kind = TokenKind::String { wide: false, value };
                out.push(Queued::from(Token { kind, ..token.clone() }));
            } else if let Some(argument) = parameter(token) {
                let argument = arguments[argument].clone();
                if next.is_some_and(|next| next.is("##")) && !argument.is_empty() {
                    out.extend(argument);
                } else {
                    out.extend(self.expand_all(argument));
                }
            } else {
                out.push(Queued::from(token.clone()));
            }
            if out.len() > MAX_EXPANSION {
                break;
            }
        }
        for (index, part) in out.iter_mut().enumerate() {
            let Token { span, line, end_line, comments, spaced, .. } = used.token;
            let comments = if index == 0 { comments } else { (comments.1, comments.1) };
            let spaced = if index == 0 { spaced } else { part.token.spaced };
            let kind = part.token.kind.clone();
            part.token = Token { kind, span, line, end_line, comments, spaced };
            let from = part.origin.take();
            // A token keeps its origin, and this macro is added to it.
            let deeper = from.as_ref().map_or(0, |from| from.depth).max(origin.depth - 1) + 1;
            part.origin = Some(Rc::new(ExpansionOrigin {
                name: Rc::clone(&origin.name),
                depth: deeper,
                from: from.or_else(|| origin.from.clone()),
            }));
        }
        out
    }

    /// Pastes two tokens into one, if both are words or numbers.
    fn paste(&mut self, left: Queued, mut right: Vec<Queued>, used: &Queued) -> Vec<Queued> {
        if right.is_empty() {
            return vec![left];
        }
        let first = right.remove(0);
        let text = format!("{}{}", left.token.text(), first.token.text());
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let kind = if text.starts_with(|c: char| c.is_ascii_digit()) && plain {
            TokenKind::Number(text.as_str().into())
        } else if plain && !text.contains('.') && !text.is_empty() {
            let bare = text.strip_prefix('_').filter(|rest| !rest.starts_with('_'));
            TokenKind::Word { text: bare.unwrap_or(&text).into(), escaped: bare.is_some() }
        } else {
            let message = format!("`##` produces `{text}`, which is neither a name nor a number");
            self.reports.error(used.token.span, message);
            return vec![left];
        };
        let joined = Queued::from(Token { kind, ..left.token });
        std::iter::once(joined).chain(right).collect()
    }

    fn built_in(&mut self, name: &str, queued: &Queued, queue: &mut VecDeque<Queued>) -> bool {
        let kind = match name {
            "__LINE__" => TokenKind::Number((queued.token.line + 1).to_string().into()),
            "__FILE__" => {
                let value = self.sources.file(queued.token.span.file).name.as_str().into();
                TokenKind::String { wide: false, value }
            }
            _ => TokenKind::Number("1".into()),
        };
        queue.push_front(Queued::from(Token { kind, ..queued.token.clone() }));
        true
    }
}

/// Whether a macro is built in. A file can recognise this compiler by `__SQUALL_IDL__`.
fn is_built_in(name: &str) -> bool {
    matches!(name, "__LINE__" | "__FILE__" | "__SQUALL_IDL__")
}

fn take<'a>(
    preprocessor: &mut Preprocessor<'a>,
    queue: &mut VecDeque<Queued>,
    more: TokenSource<'_, 'a>,
) -> Option<Queued> {
    queue.pop_front().or_else(|| more(preprocessor).map(Queued::from))
}

/// Returns tokens as text.
pub(super) fn spell(tokens: &[Queued]) -> String {
    let mut text = String::new();
    for (index, queued) in tokens.iter().enumerate() {
        if index > 0 && queued.token.spaced {
            text.push(' ');
        }
        text += &queued.token.text();
    }
    text
}

fn same(a: &Macro, b: &Macro) -> bool {
    a.parameters == b.parameters
        && a.body.len() == b.body.len()
        && a.body.iter().zip(&b.body).all(|(a, b)| a.kind == b.kind)
}

impl Queued {
    pub(super) fn into_token(self) -> Token {
        self.token
    }
}
