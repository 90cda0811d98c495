//! Directives and macros: from files to one sequence of tokens.
//!
//! Owns the selection of the text to read (`#include`, `#if`), macros, and pragmas as far as later
//! stages need them. Never knows the meaning of the tokens.
//!
//! A file without its own `#if` is read once; otherwise its declarations would be repeated. ROS 2
//! writes such files, without include guards. This rule also ends a cycle of such files.

mod condition;
mod interfaces;
mod macros;
mod pragma;
mod standard;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::diagnostic::{Reports, did_you_mean};
use crate::lexer::{Comment, Lexer, Token, TokenKind};
use crate::ros;
use crate::source::{FileId, Files, MAX_FILE_SIZE, SourceMap, Span, decode};
use macros::{Macro, Queued, spell};
pub(crate) use pragma::{Pragma, PragmaKind};
use standard::{STANDARD, standard_file};

/// Maximum nesting depth of open files.
pub const MAX_INCLUDE_DEPTH: usize = 64;

/// Maximum number of times a run may open a file.
const MAX_INCLUDES: usize = 20_000;

/// Maximum number of tokens of a run; macros can produce more than any file.
const MAX_TOKENS: usize = 4_000_000;

/// Known directives, for suggestions.
const DIRECTIVES: [&str; 14] = [
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma",
    "error", "warning", "line", "ident",
];

/// Output of the preprocessor.
pub(crate) struct Preprocessed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) pragmas: Vec<Pragma>,
    /// All files that were read, including those without tokens.
    pub(crate) files: Vec<PathBuf>,
    /// File of the standard that the compiler brings along, if a file includes it.
    pub(crate) standard: Option<FileId>,
}

/// Search directories for files, and predefined macros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) defines: Vec<(String, String)>,
}

/// An open `#if`.
struct Conditional {
    opened: Span,
    /// Whether one of the branches was read.
    taken: bool,
    /// Whether `#else` was seen.
    last: bool,
}

/// A file that is being read.
struct OpenFile {
    lexer: Lexer,
    path: PathBuf,
    identity: PathBuf,
    conditionals: Vec<Conditional>,
    /// Whether the file is read for its directives only, because an earlier file of the run has
    /// its declarations.
    silent: bool,
}

/// Data about a file that was opened before.
struct KnownFile {
    id: FileId,
    /// Whether the file has an `#if` of its own, and so controls its own repetition.
    conditional: bool,
}

pub(crate) struct Preprocessor<'a> {
    files: &'a dyn Files,
    settings: &'a Settings,
    sources: &'a mut SourceMap,
    reports: &'a mut Reports,
    open: Vec<OpenFile>,
    known: HashMap<PathBuf, KnownFile>,
    /// Files that the current root has read.
    read_now: BTreeSet<PathBuf>,
    read_before: BTreeSet<PathBuf>,
    /// Interface files of ROS 2 that use a message that was not found.
    incomplete: BTreeSet<PathBuf>,
    macros: HashMap<Rc<str>, Rc<Macro>>,
    queue: VecDeque<Queued>,
    includes: usize,
    /// Number of tokens that macros have produced.
    expanded: usize,
    /// Nesting depth of macro arguments being expanded.
    argument_depth: usize,
    /// Whether a limit was reached that ends the run.
    stopped: bool,
    out: Preprocessed,
}

impl<'a> Preprocessor<'a> {
    pub(crate) fn new(
        files: &'a dyn Files,
        settings: &'a Settings,
        sources: &'a mut SourceMap,
        reports: &'a mut Reports,
    ) -> Self {
        let out = Preprocessed {
            tokens: Vec::new(),
            comments: Vec::new(),
            pragmas: Vec::new(),
            files: Vec::new(),
            standard: None,
        };
        Self {
            files,
            settings,
            sources,
            reports,
            open: Vec::new(),
            known: HashMap::new(),
            read_now: BTreeSet::new(),
            read_before: BTreeSet::new(),
            incomplete: BTreeSet::new(),
            macros: HashMap::new(),
            queue: VecDeque::new(),
            includes: 0,
            expanded: 0,
            argument_depth: 0,
            stopped: false,
            out,
        }
    }

    /// Reads a file and the files it includes, beginning with the macros of the settings.
    pub(crate) fn root(&mut self, path: &Path, text: String) {
        let identity = self.files.identity(path);
        self.macros.clear();
        self.read_before.append(&mut self.read_now);
        for (name, value) in &self.settings.defines {
            let id = self.sources.add("<command line>", format!("#define {name} {value}"));
            let mut lexer = Lexer::new(id, Rc::clone(&self.sources.file(id).text));
            lexer.enter_directive();
            let mut unused = Vec::new();
            // Skips `#` and `define`.
            lexer.next(&mut unused, self.reports);
            lexer.next(&mut unused, self.reports);
            self.define(&mut lexer);
        }
        self.out.files.push(path.to_owned());
        if ros::is_interface(path) {
            return self.interface(path, text, 0);
        }
        let silent = self.read_before.contains(&identity);
        self.enter(path.to_owned(), identity, text, silent);
        while let Some(token) = self.next_expanded() {
            if self.out.tokens.len() >= MAX_TOKENS {
                self.stop(token.span, "this run of the compiler has too many tokens");
                break;
            }
            self.out.tokens.push(token);
        }
    }

    /// Ends the run. `place` is the position reported for the end of the input.
    pub(crate) fn finish(mut self) -> Preprocessed {
        let at = self
            .out
            .tokens
            .last()
            .map_or_else(|| Span { file: FileId(0), start: 0, end: 0 }, |token| token.span);
        let text = &self.sources.file(at.file).text;
        let end = if self.out.tokens.is_empty() { text.len() as u32 } else { at.end };
        let end = end.max(text.trim_end().len() as u32);
        self.out.standard = self.known.get(Path::new(STANDARD)).map(|known| known.id);
        let first_comment = self.out.tokens.last().map_or(0, |token| token.comments.1);
        let comments = self.out.comments.len() as u32;
        self.out.tokens.push(Token {
            kind: TokenKind::End,
            span: Span { file: at.file, start: end, end },
            line: u32::MAX,
            end_line: u32::MAX,
            comments: (first_comment, comments),
            spaced: true,
        });
        self.out
    }

    fn stop(&mut self, span: Span, message: &str) {
        if !self.stopped {
            self.reports.error(span, format!("{message}; nothing more is read"));
        }
        self.stopped = true;
        self.open.clear();
        self.queue.clear();
    }

    fn enter(&mut self, path: PathBuf, identity: PathBuf, text: String, silent: bool) {
        let id = match self.known.get(&identity) {
            Some(known) => known.id,
            None => {
                let conditional = text.lines().any(|line| {
                    let line = line.trim_start();
                    line.strip_prefix('#').is_some_and(|rest| rest.trim_start().starts_with("if"))
                });
                let id = self.sources.add(&path.display().to_string(), text);
                self.known.insert(identity.clone(), KnownFile { id, conditional });
                id
            }
        };
        self.read_now.insert(identity.clone());
        let lexer = Lexer::new(id, Rc::clone(&self.sources.file(id).text));
        self.open.push(OpenFile { lexer, path, identity, conditionals: Vec::new(), silent });
    }

    /// Returns the next token of the files, before macro expansion.
    fn next_raw(&mut self) -> Option<Token> {
        loop {
            if self.reports.is_full() {
                self.open.clear();
            }
            let open = self.open.last_mut()?;
            let first_comment = self.out.comments.len();
            let (token, starts_line) = open.lexer.next(&mut self.out.comments, self.reports);
            if token.kind == TokenKind::End {
                self.close();
            } else if starts_line && token.is("#") {
                self.out.comments.truncate(first_comment);
                self.directive(token.span);
            } else if open.silent {
                self.out.comments.truncate(first_comment);
            } else {
                return Some(token);
            }
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            for conditional in open.conditionals {
                self.reports.error(conditional.opened, "this `#if` has no `#endif`");
            }
        }
    }

    fn lexer(&mut self) -> Option<&mut Lexer> {
        self.open.last_mut().map(|open| &mut open.lexer)
    }

    /// Reads the directive after a `#`.
    fn directive(&mut self, hash: Span) {
        let Some(open) = self.open.last_mut() else { return };
        open.lexer.enter_directive();
        let (token, _) = open.lexer.next(&mut Vec::new(), self.reports);
        let word = Lexer::macro_name(&token.kind).unwrap_or_default();
        let span = hash.to(token.span);
        match &*word {
            "include" => return self.include(span),
            "define" => self.with_lexer(Self::define),
            "undef" => {
                self.with_lexer(|this, lexer| {
                    if let Some(name) = this.macro_name(lexer, "#undef") {
                        this.macros.remove(&name.0);
                        this.end_of_line(lexer, "#undef");
                    }
                });
            }
            "if" | "ifdef" | "ifndef" => return self.begin_if(&word, span),
            "elif" | "else" => return self.other_branch(&word, span),
            "endif" => {
                let ended = self.open.last_mut().and_then(|open| open.conditionals.pop());
                if ended.is_none() {
                    self.reports.error(span, "this `#endif` ends no `#if`");
                }
            }
            "pragma" => {
                let mut once = false;
                self.with_lexer(|this, lexer| once = this.pragma(lexer, span));
                let identity = self.open.last().map(|open| &open.identity);
                if let Some(known) = identity.and_then(|identity| self.known.get_mut(identity))
                    && once
                {
                    known.conditional = false;
                }
            }
            "error" | "warning" => {
                let (text, _) = open.lexer.rest_of_line();
                let text = format!("#{word}: {}", text.trim());
                if &*word == "error" {
                    self.reports.error(span, text);
                } else {
                    self.reports.warning(span, text);
                }
            }
            // A version for human readers, as some revision control systems write it.
            "ident" | "sccs" => {
                self.reports
                    .note(span, format!("`#{word}` is for human readers and has no effect"));
            }
            // Line markers of another preprocessor are ignored; positions stay those of the
            // actual file.
            "line" => {}
            _ if matches!(token.kind, TokenKind::Number(_) | TokenKind::End) => {}
            _ => {
                let guess = did_you_mean(&word, DIRECTIVES);
                let text = format!("there is no directive `#{}`{guess}", token.text());
                self.reports.error(span, text);
            }
        }
        if let Some(lexer) = self.lexer() {
            lexer.leave_directive();
        }
    }

    /// Lends the open file's lexer to `read`, which also needs the rest of `self`.
    fn with_lexer(&mut self, read: impl FnOnce(&mut Self, &mut Lexer)) {
        let Some(mut open) = self.open.pop() else { return };
        read(self, &mut open.lexer);
        self.open.push(open);
    }

    /// Reads the name of a macro in a directive.
    fn macro_name(&mut self, lexer: &mut Lexer, directive: &str) -> Option<(Rc<str>, Span)> {
        let (token, _) = lexer.next(&mut Vec::new(), self.reports);
        match Lexer::macro_name(&token.kind) {
            Some(name) if &*name != "defined" => Some((name, token.span)),
            _ => {
                let text = format!("expected the name of a macro after `{directive}`");
                self.reports.error(token.span, text);
                None
            }
        }
    }

    fn end_of_line(&mut self, lexer: &mut Lexer, directive: &str) {
        let (token, _) = lexer.next(&mut Vec::new(), self.reports);
        if token.kind != TokenKind::End {
            let text = format!("`{}` after `{directive}` has no effect", token.text());
            self.reports.warning(token.span, text);
        }
    }

    /// Returns the tokens up to the end of the line.
    fn line_tokens(&mut self, lexer: &mut Lexer) -> Vec<Token> {
        let mut tokens = Vec::new();
        loop {
            let (token, _) = lexer.next(&mut Vec::new(), self.reports);
            if token.kind == TokenKind::End {
                return tokens;
            }
            tokens.push(token);
        }
    }

    fn begin_if(&mut self, word: &str, span: Span) {
        let mut holds = false;
        self.with_lexer(|this, lexer| {
            holds = if word == "if" {
                let tokens = this.line_tokens(lexer);
                this.condition(tokens, span)
            } else {
                let defined = this.macro_name(lexer, &format!("#{word}")).map(|(name, _)| {
                    this.end_of_line(lexer, &format!("#{word}"));
                    this.is_defined(&name)
                });
                // A missing name has been reported; the branch is read.
                defined.is_none_or(|defined| defined == (word == "ifdef"))
            };
            lexer.leave_directive();
        });
        let Some(open) = self.open.last_mut() else { return };
        open.conditionals.push(Conditional { opened: span, taken: holds, last: false });
        if !holds {
            self.skip_branches();
        }
    }

    /// Handles `#elif` or `#else` after a branch that was read.
    fn other_branch(&mut self, word: &str, span: Span) {
        let Some(open) = self.open.last_mut() else { return };
        open.lexer.leave_directive();
        match open.conditionals.last_mut() {
            None => {
                self.reports.error(span, format!("this `#{word}` belongs to no `#if`"));
            }
            Some(conditional) if conditional.last => {
                self.reports.error(span, format!("`#{word}` comes after `#else`"));
            }
            Some(conditional) => {
                conditional.last = word == "else";
                self.skip_branches();
            }
        }
    }

    /// Skips text up to the branch to read, or to the `#endif`.
    fn skip_branches(&mut self) {
        let mut depth = 0;
        loop {
            let Some(open) = self.open.last_mut() else { return };
            // A missing `#endif` is reported at the end of the file.
            let Some(hash) = open.lexer.skip_to_directive() else { return };
            open.lexer.enter_directive();
            // Errors in skipped text are not reported.
            let (token, _) = open.lexer.next(&mut Vec::new(), &mut Reports::default());
            let word = token.word().unwrap_or_default();
            let span = hash.to(token.span);
            match word {
                "if" | "ifdef" | "ifndef" => depth += 1,
                "endif" if depth > 0 => depth -= 1,
                "endif" => {
                    open.lexer.leave_directive();
                    open.conditionals.pop();
                    return;
                }
                "else" | "elif" if depth == 0 && self.branch_holds(word, span) => return,
                _ => {}
            }
            if let Some(lexer) = self.lexer() {
                lexer.leave_directive();
            }
        }
    }

    fn branch_holds(&mut self, word: &str, span: Span) -> bool {
        let Some(open) = self.open.last_mut() else { return false };
        let Some(conditional) = open.conditionals.last_mut() else { return false };
        if conditional.last {
            self.reports.error(span, format!("`#{word}` comes after `#else`"));
            return false;
        }
        conditional.last = word == "else";
        if conditional.taken {
            return false;
        }
        let mut holds = true;
        if word == "elif" {
            self.with_lexer(|this, lexer| {
                let tokens = this.line_tokens(lexer);
                holds = this.condition(tokens, span);
            });
        }
        if let Some(open) = self.open.last_mut() {
            open.lexer.leave_directive();
            if let Some(conditional) = open.conditionals.last_mut() {
                conditional.taken = holds;
            }
        }
        holds
    }

    fn include(&mut self, span: Span) {
        let mut wanted = None;
        self.with_lexer(|this, lexer| {
            let mut again = lexer.clone();
            let (text, place) = lexer.rest_of_line();
            wanted = match file_name(&text) {
                Some((name, quoted, start)) => {
                    let end = start + name.len() + 2;
                    let [start, end] = [start, end].map(|at| place.start + at as u32);
                    Some((name.to_owned(), quoted, Span { start, end, ..place }))
                }
                None => this.file_name_of_macros(&mut again, place),
            };
            lexer.leave_directive();
        });
        let Some((name, quoted, place)) = wanted else { return };
        if self.open.len() >= MAX_INCLUDE_DEPTH {
            let text = format!(
                "files include each other more than {MAX_INCLUDE_DEPTH} deep; guard them by \
                 `#ifndef`"
            );
            self.reports.error(span, text);
            return;
        }
        self.includes += 1;
        if self.includes > MAX_INCLUDES {
            self.stop(span, "too many files are included");
            return;
        }
        match self.find(&name, quoted) {
            Err(_) if standard_file(&name).is_some() => self.enter_standard(&name),
            Err(looked) => {
                let text = format!("there is no file `{name}`; looked for in {looked}");
                self.reports.error(place, text);
            }
            Ok(found) => self.enter_included(found, place),
        }
    }

    /// Enters a file of the standard that is on no disk. Its contents are read once.
    fn enter_standard(&mut self, name: &str) {
        let identity = PathBuf::from(STANDARD);
        if let Some(text) = standard_file(name)
            && !self.read_now.contains(&identity)
        {
            let silent = self.read_before.contains(&identity);
            self.enter(PathBuf::from(name), identity, text.to_owned(), silent);
        }
    }

    fn enter_included(&mut self, found: FoundFile, place: Span) {
        let FoundFile { path, identity, bytes } = found;
        let is_open = self.open.iter().any(|open| open.identity == identity);
        let silent = self.read_before.contains(&identity);
        if let Some(known) = self.known.get(&identity) {
            let here_already = self.read_now.contains(&identity);
            if !here_already || known.conditional {
                return self.enter(path, identity, String::new(), silent);
            }
            if is_open {
                let text = format!("`{}` includes itself; it is read once", path.display());
                self.reports.warning(place, text);
            }
            return;
        }
        match bytes {
            Some(bytes) if bytes.len() <= MAX_FILE_SIZE => {
                self.out.files.push(path.clone());
                self.enter(path, identity, decode(bytes), silent);
            }
            _ => {
                self.reports.error(place, format!("`{}` is too long", path.display()));
            }
        }
    }

    /// Expands the macros of the line to the name of a file, in double quotes or angle brackets.
    fn file_name_of_macros(
        &mut self,
        lexer: &mut Lexer,
        place: Span,
    ) -> Option<(String, bool, Span)> {
        let tokens = self.line_tokens(lexer).into_iter().map(Queued::from).collect();
        let expanded = self.expand_all(tokens);
        if let [only] = expanded.as_slice()
            && let TokenKind::String { value, .. } = only.kind()
            && !value.is_empty()
        {
            return Some((value.to_string(), true, place));
        }
        if let Some((name, quoted, _)) = file_name(&spell(&expanded)) {
            return Some((name.to_owned(), quoted, place));
        }
        let text = "expected the name of a file: #include \"file.idl\" or #include <file.idl>";
        self.reports.error(place, text);
        None
    }

    /// Searches beside the including file (for names in double quotes), then in the directories in
    /// order. A file that is not known yet is returned with its bytes.
    fn find(&self, name: &str, quoted: bool) -> Result<FoundFile, String> {
        let beside = self.open.last().and_then(|open| open.path.parent()).map(Path::to_owned);
        let beside = if quoted { beside } else { None };
        let mut looked = Vec::new();
        for directory in beside.iter().chain(&self.settings.directories) {
            let path = directory.join(name);
            let identity = self.files.identity(&path);
            if self.known.contains_key(&identity) {
                return Ok(FoundFile { path, identity, bytes: None });
            }
            if let Ok(bytes) = self.files.read(&path) {
                return Ok(FoundFile { path, identity, bytes: Some(bytes) });
            }
            let shown = directory.display().to_string();
            looked.push(if shown.is_empty() { ".".to_owned() } else { shown });
        }
        if looked.is_empty() {
            looked.push("no directory (give one by -I)".to_owned());
        }
        Err(looked.join(", "))
    }
}

/// Returns the file name at the start of a text, whether it is in double quotes, and the position
/// of its opening mark.
fn file_name(text: &str) -> Option<(&str, bool, usize)> {
    let start = text.len() - text.trim_start().len();
    let close = match text[start..].chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    let rest = &text[start + 1..];
    let end = rest.find(close).filter(|end| *end > 0)?;
    Some((&rest[..end], close == '"', start))
}

/// Included file on disk.
struct FoundFile {
    path: PathBuf,
    identity: PathBuf,
    /// Content, if the file is not known yet.
    bytes: Option<Vec<u8>>,
}
