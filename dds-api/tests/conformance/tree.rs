//! The source tree: tests with the items they use, and the public items of the product.
//!
//! Owns: reading rustfmt-formatted source by lines. Never does: judge the results.
//!
//! ```text
//!   item      from a line that begins at the margin to the line that closes it there
//!   reached   words in a test's body, and in the items of its file that they name, and so on
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folder that all paths here are relative to.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the path of a test file by name. A name without a folder is a program of this crate, or
/// a module of one.
pub(crate) fn path_of(file: &str) -> String {
    if file.contains('/') {
        return format!("{file}.rs");
    }
    let programs = std::fs::read_dir(root().join("dds-api/tests")).unwrap().flatten();
    let programs = programs.map(|it| it.file_name().into_string().unwrap());
    let modules = programs.map(|program| format!("dds-api/tests/{program}/{file}.rs"));
    let itself = format!("dds-api/tests/{file}.rs");
    let mut found = modules.chain([itself.clone()]).filter(|path| root().join(path).is_file());
    let path = found.next();
    assert!(found.next().is_none(), "there are two files of tests named `{file}`");
    path.unwrap_or(itself)
}

/// Returns the words of a text: names as in source.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| !word.is_empty())
}

/// An item that begins at the margin, with all its lines.
struct Item {
    header: String,
    text: String,
}

/// Returns the items of a file.
fn items(source: &str) -> Vec<Item> {
    let mut found: Vec<Item> = Vec::new();
    let mut is_open = false;
    for line in source.lines() {
        let at_margin = line.chars().next().is_some_and(|it| !it.is_whitespace());
        let closes = at_margin && line.starts_with(['}', ')', ']']);
        let continues = closes || !at_margin || line == "{" || line.starts_with("where");
        let is_remark = line.starts_with("//") || line.starts_with('#');
        if is_open && continues {
            let item = found.last_mut().unwrap();
            item.text.push_str(line);
            item.text.push('\n');
            is_open = !closes || line.ends_with('{');
        } else if at_margin && !is_remark {
            found.push(Item { header: line.to_owned(), text: format!("{line}\n") });
            is_open = !line.ends_with(';') && !line.ends_with('}');
        }
    }
    found
}

/// Returns the name of an item: the last name before its parameters.
fn name_of(header: &str) -> &str {
    let before = |text: &'static str| header.split_once(text).map(|(_, after)| after);
    let after =
        ["macro_rules! ", " for ", "fn ", "struct ", "enum ", "trait ", "const ", "static "]
            .into_iter()
            .find_map(before);
    let after = after.or(header.strip_prefix("impl ")).or(header.strip_prefix("mod "));
    after.and_then(|after| words(after).next()).unwrap_or_default()
}

/// A file of tests, and the shared files it uses.
pub(crate) struct TestFile {
    source: String,
    items: Vec<Item>,
}

impl TestFile {
    /// Reads a file; `None` if it does not exist.
    pub(crate) fn read(path: &str) -> Option<TestFile> {
        let path = root().join(path);
        let source = std::fs::read_to_string(&path).ok()?;
        let mut items = items(&source);
        let above = path.parent().unwrap().with_file_name("support");
        for shared in [path.with_file_name("support"), above, path.with_extension("")] {
            for file in std::fs::read_dir(shared).into_iter().flatten().flatten() {
                items.extend(self::items(&std::fs::read_to_string(file.path()).unwrap()));
            }
        }
        Some(TestFile { source, items })
    }

    /// Returns the body of a test, if the test exists and is run.
    pub(crate) fn test(&self, name: &str) -> Result<String, String> {
        let lines: Vec<&str> = self.source.lines().collect();
        let is_it = |line: &str| {
            let after = line.trim_start().strip_prefix("fn ");
            after.is_some_and(|after| words(after).next() == Some(name))
        };
        let at = lines.iter().position(|line| is_it(line)).ok_or("there is no such function")?;
        let margin = lines[at].len() - lines[at].trim_start().len();
        let attributes = lines[..at].iter().rev().map(|line| line.trim_start());
        let attributes: Vec<&str> = attributes
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .collect();
        if !attributes.contains(&"#[test]") {
            return Err("it is no test".to_owned());
        }
        if attributes.iter().any(|line| line.starts_with("#[ignore") || line.starts_with("#[cfg")) {
            return Err("it is not always run".to_owned());
        }
        let end = format!("{}}}", " ".repeat(margin));
        let body = lines[at..].iter().take_while(|line| **line != end);
        Ok(body.fold(String::new(), |body, line| body + line + "\n"))
    }

    /// Returns all words that a test reaches, in its file and in shared ones.
    pub(crate) fn reached<'a>(&'a self, body: &'a str) -> BTreeSet<&'a str> {
        let mut named: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
        self.items
            .iter()
            .for_each(|item| named.entry(name_of(&item.header)).or_default().push(item));
        let mut reached: BTreeSet<&str> = words(body).collect();
        let mut left: Vec<&str> = reached.iter().copied().collect();
        while let Some(word) = left.pop() {
            for item in named.remove(word).into_iter().flatten() {
                let new = words(&item.text).filter(|word| reached.insert(word)).collect::<Vec<_>>();
                left.extend(new);
            }
        }
        reached
    }
}

/// Source of the product, as far as it is visible to applications.
pub(crate) struct Product {
    items: Vec<Item>,
    macros: BTreeMap<String, String>,
    /// Names of functions, types and variants, each with itself and with its aliases.
    names: BTreeSet<(String, String)>,
}

impl Product {
    pub(crate) fn read() -> Product {
        let (mut items, mut names) = (Vec::new(), BTreeSet::new());
        let mut folders = vec![root().join("dds-api/src"), root().join("qos-profiles/src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => {
                        let source = std::fs::read_to_string(path).unwrap();
                        items.extend(self::items(&source));
                        names.extend(aliases(&source));
                    }
                }
            }
        }
        let macros = items.iter().filter(|item| item.header.starts_with("macro_rules! "));
        let macros = macros.map(|item| (name_of(&item.header).to_owned(), item.text.clone()));
        Product { macros: macros.collect(), items, names }
    }

    /// Whether a function, type or variant has this name or this alias in the documentation.
    pub(crate) fn is_found(&self, item: &str, alias: &str) -> bool {
        self.names.contains(&(item.to_owned(), alias.to_owned()))
    }

    /// Whether a type, or a public member of one, exists: `Type`, or `Type::member`.
    pub(crate) fn has(&self, name: &str) -> bool {
        let (of, member) = name.split_once("::").unwrap_or((name, ""));
        self.items.iter().any(|item| {
            let is_list = !item.header.starts_with("macro_rules!") && item.header.contains("! {");
            let is_of = words(if is_list { &item.text } else { &item.header }).any(|it| it == of);
            is_of && (member.is_empty() && is_public(item, of) || self.shows(item, member))
        })
    }

    /// Whether a member is public in this item, or in a macro that it uses.
    fn shows(&self, item: &Item, member: &str) -> bool {
        let used = words(&item.text).filter_map(|word| self.macros.get(word));
        let is_trait = item.header.contains("trait ");
        used.chain([&item.text]).flat_map(|text| text.lines()).map(str::trim_start).any(|line| {
            let plain = line.strip_prefix("pub ").or(is_trait.then_some(line));
            let is_enum = item.header.starts_with("pub enum") || item.header.contains("kinds! {");
            let plain =
                plain.or(is_enum.then_some(line)).or(item.header.contains("! {").then_some(line));
            plain.is_some_and(|line| {
                let line = line.trim_start_matches("const ").trim_start_matches("async ");
                let line = line.strip_prefix("fn ").unwrap_or(line);
                words(line).next() == Some(member) && !line.starts_with("//")
            })
        })
    }
}

/// Returns the names in a file, each with itself and with the `doc(alias)` attributes above it.
fn aliases(source: &str) -> Vec<(String, String)> {
    let (mut found, mut above) = (Vec::new(), Vec::new());
    for line in source.lines().map(str::trim_start) {
        if let Some(alias) = line.strip_prefix("#[doc(alias = \"") {
            above.extend(alias.split('"').next());
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            let plain = ["pub ", "pub(crate) ", "const ", "async ", "fn ", "struct ", "enum "]
                .into_iter()
                .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
            if let Some(name) = words(plain).next() {
                found
                    .extend(above.drain(..).chain([name]).map(|alias| (name.into(), alias.into())));
            }
        }
    }
    found
}

/// Whether an item makes a type public.
fn is_public(item: &Item, name: &str) -> bool {
    let list = item.header.contains("! {");
    list || ["pub struct ", "pub enum ", "pub trait "].iter().any(|it| {
        item.header.strip_prefix(it).is_some_and(|after| words(after).next() == Some(name))
    })
}
