//! Interface files of ROS 2 packages (`.msg`, `.srv`, `.action`) as tokens of IDL.
//!
//! Owns the grammar of these files, and the names that ROS 2 gives the types on a DDS domain:
//! `std_msgs/String` is `std_msgs::msg::dds_::String_`. Never opens a file; the preprocessor does.
//!
//! Each token has the position of the text that it comes from, so that errors of later stages show
//! the line of the interface file.

mod lines;
mod tokens;
mod values;

use std::path::Path;

use crate::diagnostic::Reports;
use crate::lexer::Token;
use crate::source::{FileId, Span};
use lines::{InterfaceLine, ReadType, TypeBase};
use tokens::IdlTokens;

/// A message that an interface file uses.
pub(crate) struct Reference {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) span: Span,
}

/// An interface file as IDL.
pub(crate) struct Interface {
    pub(crate) tokens: Vec<Token>,
    pub(crate) references: Vec<Reference>,
}

/// Kind of an interface file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InterfaceKind {
    Message,
    Service,
    Action,
}

impl InterfaceKind {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "msg" => Some(Self::Message),
            "srv" => Some(Self::Service),
            "action" => Some(Self::Action),
            _ => None,
        }
    }

    /// Name of the directory of such files, and of the IDL module.
    fn module(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Service => "srv",
            Self::Action => "action",
        }
    }

    /// Suffixes of the types that the parts of the file describe.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Message => &[""],
            Self::Service => &["_Request", "_Response"],
            Self::Action => &["_Goal", "_Result", "_Feedback"],
        }
    }
}

/// Whether a file is an interface file of ROS 2, by its name.
pub(crate) fn is_interface(path: &Path) -> bool {
    InterfaceKind::of(path).is_some()
}

/// Translates an interface file. `path` ends in `PACKAGE/msg/NAME.msg`, or the like.
pub(crate) fn translate(path: &Path, file: FileId, text: &str, reports: &mut Reports) -> Interface {
    let start = Span { file, start: 0, end: 0 };
    let nothing = Interface { tokens: Vec::new(), references: Vec::new() };
    let Some(kind) = InterfaceKind::of(path) else { return nothing };
    let part = |index: usize| {
        let part = path.ancestors().nth(index).and_then(Path::file_name)?;
        part.to_str().filter(|part| lines::is_name(part))
    };
    let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| lines::is_name(stem));
    let (Some(name), Some(package)) = (name, part(2).filter(|_| part(1) == Some(kind.module())))
    else {
        let text = format!(
            "the path of this file does not name its package; expected PACKAGE/{0}/NAME.{0}",
            kind.module()
        );
        reports.error(start, text);
        return nothing;
    };
    let mut translation = Translation {
        kind,
        package: package.to_owned(),
        name: name.to_owned(),
        out: IdlTokens::new(file),
        references: Vec::new(),
        file,
        reports,
    };
    translation.file(text);
    Interface { tokens: translation.out.tokens, references: translation.references }
}

struct Translation<'a> {
    kind: InterfaceKind,
    package: String,
    name: String,
    out: IdlTokens,
    references: Vec<Reference>,
    file: FileId,
    reports: &'a mut Reports,
}

impl Translation<'_> {
    fn file(&mut self, text: &str) {
        let lines = lines::read(self.file, text, self.reports);
        let start = Span { file: self.file, start: 0, end: 0 };
        let parts: Vec<&[InterfaceLine]> =
            lines.split(|line| matches!(line, InterfaceLine::Separator(_))).collect();
        let suffixes = self.kind.parts();
        if parts.len() != suffixes.len() {
            let separator = lines.iter().find_map(|line| match line {
                InterfaceLine::Separator(span) => Some(*span),
                _ => None,
            });
            let text = format!(
                "a .{} file has {} lines `---`, this one has {}",
                self.kind.module(),
                suffixes.len() - 1,
                parts.len() - 1
            );
            self.reports.error(separator.unwrap_or(start), text);
            return;
        }
        self.out.at(start, 0);
        self.out.idl("module").name(&self.package).idl("{ module").name(self.kind.module());
        self.out.idl("{ module").name("dds_").idl("{");
        for (suffix, part) in suffixes.iter().zip(parts) {
            let name = format!("{}{suffix}", self.name);
            self.part(&name, part);
        }
        if self.kind == InterfaceKind::Action {
            self.action_types();
        }
        self.out.idl("} ; } ; } ;");
    }

    /// Writes the struct of a message or of a part of a service or action, and its constants.
    fn part(&mut self, name: &str, lines: &[InterfaceLine]) {
        let mut constants = IdlTokens::new(self.file);
        let mut members = IdlTokens::new(self.file);
        let (mut file_docs, mut docs): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for line in lines {
            match line {
                InterfaceLine::Comment(text) => docs.push(text.clone()),
                // A comment at the beginning, with an empty line behind it, is about the type.
                InterfaceLine::Empty => {
                    let taken = std::mem::take(&mut docs);
                    if file_docs.is_empty() && members.is_empty() && constants.is_empty() {
                        file_docs = taken;
                    }
                }
                InterfaceLine::Separator(_) => {}
                InterfaceLine::Entry(entry) => {
                    docs.extend(entry.comment.clone());
                    let out = if entry.is_constant { &mut constants } else { &mut members };
                    out.at(entry.ty.span, entry.line);
                    self.entry(entry, &std::mem::take(&mut docs), out);
                }
            }
        }
        if members.is_empty() {
            if file_docs.is_empty() {
                file_docs = docs;
            }
            members.idl("uint8").name("structure_needs_at_least_one_member").idl(";");
        }
        if !constants.is_empty() {
            self.out.idl("module").name(&format!("{name}_Constants")).idl("{");
            self.out.append(constants);
            self.out.idl("} ;");
        }
        self.out.docs(&file_docs);
        self.out.idl("struct").name(&format!("{name}_")).idl("{");
        self.out.append(members);
        self.out.idl("} ;");
    }

    fn entry(&mut self, entry: &lines::Entry, docs: &[String], out: &mut IdlTokens) {
        let value = entry.value.as_ref().map(|(text, span)| {
            values::value(&entry.ty, text).map_err(|message| self.reports.error(*span, message))
        });
        // The error has been reported; the member is still declared.
        let value = value.and_then(Result::ok);
        if entry.is_constant {
            let Some(value) = value else { return };
            out.docs(docs);
            out.idl("const");
            self.base(&entry.ty, out);
            out.at(entry.name.1, entry.line).name(&entry.name.0).idl("=");
            out.extend(value);
            out.idl(";");
            return;
        }
        out.docs(docs);
        if let Some(value) = value {
            out.idl("@").name("default").idl("(");
            out.extend(value);
            out.idl(")");
        }
        if entry.ty.is_sequence() {
            out.idl("sequence <");
            self.base(&entry.ty, out);
            if let Some(bound) = &entry.ty.bound {
                out.idl(",").number(bound);
            }
            out.idl(">");
        } else {
            self.base(&entry.ty, out);
        }
        out.at(entry.name.1, entry.line).name(&entry.name.0);
        if let Some(length) = entry.ty.array_length() {
            out.idl("[").number(length);
            out.idl("]");
        }
        out.idl(";");
    }

    /// Writes the type of a member or of its elements.
    fn base(&mut self, ty: &ReadType, out: &mut IdlTokens) {
        match &ty.base {
            TypeBase::Primitive(idl) => {
                out.idl(idl);
            }
            TypeBase::String { wide, bound } => {
                out.idl(if *wide { "wstring" } else { "string" });
                if let Some(bound) = bound {
                    out.idl("<").number(bound);
                    out.idl(">");
                }
            }
            TypeBase::Message { package, name } => {
                let package = package.as_ref().unwrap_or(&self.package).clone();
                out.message(&package, name);
                self.references.push(Reference { package, name: name.clone(), span: ty.span });
            }
        }
    }

    /// Writes the services and the message by which ROS 2 runs an action.
    fn action_types(&mut self) {
        let name = self.name.clone();
        let span = Span { file: self.file, start: 0, end: 0 };
        for (package, message) in
            [("unique_identifier_msgs", "UUID"), ("builtin_interfaces", "Time")]
        {
            let (package, name) = (package.to_owned(), message.to_owned());
            self.references.push(Reference { package, name, span });
        }
        let own = |out: &mut IdlTokens, part: &str, member: &str| {
            out.name(&format!("{name}_{part}_")).name(member).idl(";");
        };
        let goal_id = |out: &mut IdlTokens| {
            out.message("unique_identifier_msgs", "UUID").name("goal_id").idl(";");
        };
        let out = &mut self.out;
        let begin = |out: &mut IdlTokens, part: &str| {
            out.idl("struct").name(&format!("{name}_{part}_")).idl("{");
        };
        begin(out, "SendGoal_Request");
        goal_id(out);
        own(out, "Goal", "goal");
        out.idl("} ;");
        begin(out, "SendGoal_Response");
        out.idl("boolean").name("accepted").idl(";");
        out.message("builtin_interfaces", "Time").name("stamp").idl("; } ;");
        begin(out, "GetResult_Request");
        goal_id(out);
        out.idl("} ;");
        begin(out, "GetResult_Response");
        out.idl("int8").name("status").idl(";");
        own(out, "Result", "result");
        out.idl("} ;");
        begin(out, "FeedbackMessage");
        goal_id(out);
        own(out, "Feedback", "feedback");
        out.idl("} ;");
    }
}
