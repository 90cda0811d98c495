//! Rules for the text of the repository: comments, invariants, links, decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest comment line, in characters. Code of an example in a doc comment may be longer.
const LONGEST: usize = 100;
/// Words that open no doc comment: they name no thing.
const FILLERS: [&str; 9] =
    ["It", "What", "Who", "Whoever", "So", "Of", "That", "The same", "Those"];
/// Names that do not say the role of a type.
const BARE: [&str; 40] = [
    "Answer", "Asked", "Broken", "Due", "Fate", "Found", "Given", "Held", "Kept", "Kind", "Known",
    "Level", "Line", "Look", "Mark", "Member", "Opened", "Own", "Part", "Parts", "Place", "Plan",
    "Reach", "Reason", "Said", "Seat", "Share", "Shown", "Source", "Stage", "Standing", "Start",
    "Stay", "Step", "Taken", "Terms", "Told", "Way", "Word", "Wrong",
];
/// Endings of the names of types that act or keep something. Each of them is in the glossary.
const ROLES: [&str; 14] = [
    "Attendant",
    "Detector",
    "Directory",
    "Dispatcher",
    "Filler",
    "Follower",
    "Host",
    "Machine",
    "Monitor",
    "Register",
    "Replica",
    "Service",
    "StoreSet",
    "Tracker",
];
/// Rooms whose role types are in the glossary.
const ROOMS: [&str; 6] = [
    "derecho-core/src",
    "derecho-core/node/src",
    "dds-transport-rdma/src",
    "dds-api/src/mapping",
    "dds-api/src/publication",
    "dds-api/src/subscription",
];
/// Folders of generated or foreign text.
const LEFT_OUT: [&str; 3] = ["target", ".git", "idl/tests/golden"];
/// File names in documents that stand for files of the reader's own.
const OF_THE_READER: [&str; 7] = [
    "SQUALL_QOS_PROFILES.xml",
    "src/bin/display.rs",
    "src/bin/sensor.rs",
    // Of the standard.
    "dds_dcps.idl",
    "dds_rtf2_dcps.idl",
    "dds_primitives.idl",
    "dds_builtin_types.idl",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tools is in the repository").to_owned()
}

/// All text files with an extension, by their path in the repository.
fn files(extension: &str) -> BTreeMap<String, String> {
    let (root, mut found) = (root(), BTreeMap::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folders of the repository are readable") {
            let path = entry.expect("entries are readable").path();
            let name = path.strip_prefix(&root).expect("it is below").display().to_string();
            if path.is_dir() {
                let is_left_out =
                    LEFT_OUT.iter().any(|out| name == *out || name.ends_with("/target"));
                folders.extend((!is_left_out).then_some(path));
            } else if path.extension().is_some_and(|it| it == extension) {
                found.insert(name, fs::read_to_string(&path).expect("it is text"));
            }
        }
    }
    assert!(!found.is_empty(), "no file ends with .{extension}");
    found
}

fn report(found: &[String]) {
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

/// Text of a doc comment line.
fn doc_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// Opening word of a doc comment, if it is a filler.
fn filler(text: &str) -> Option<&'static str> {
    let opens = |word: &&str| {
        let rest = text.strip_prefix(*word);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    FILLERS.iter().copied().find(|word| opens(word))
}

#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    let mut found = Vec::new();
    for (name, text) in files("rs") {
        let mut before = false;
        for (number, line) in (1..).zip(text.lines()) {
            let doc = doc_of(line);
            let opening = doc.filter(|_| !before).and_then(filler);
            found.extend(opening.map(|word| format!("{name}:{number}: opens with `{word}`")));
            before = doc.is_some();
        }
    }
    report(&found);
}

#[test]
fn comment_lines_have_at_most_100_characters() {
    let mut found = Vec::new();
    for (name, text) in files("rs") {
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            let doc = doc_of(line);
            let is_fence = doc.is_some_and(|doc| doc.trim_start().starts_with("```"));
            is_code = doc.is_some() && is_code != is_fence;
            let is_comment = line.trim_start().starts_with("//") && !(is_code && doc.is_some());
            if is_comment && line.chars().count() > LONGEST {
                found.push(format!("{name}:{number}: longer than {LONGEST} characters"));
            }
        }
    }
    report(&found);
}

/// Name of the type that a line defines.
fn type_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    let mut words = line.split_whitespace();
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&words.next()?);
    let name = words.next().filter(|_| is_type)?;
    Some(name.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or(name))
}

/// All types that the code defines, with their files.
fn types() -> Vec<(String, String)> {
    let code = files("rs");
    let of = |(name, text): (&String, &String)| {
        let types = text.lines().filter_map(type_of);
        types.map(|it| (it.to_owned(), name.clone())).collect::<Vec<_>>()
    };
    code.iter().flat_map(of).collect()
}

/// Tests and examples define types as a user would.
#[test]
fn no_type_of_the_product_has_a_bare_name() {
    let is_of_users = |file: &str| ["tests/", "examples/"].iter().any(|it| file.contains(it));
    let bare = types()
        .into_iter()
        .filter(|(name, file)| BARE.contains(&name.as_str()) && !is_of_users(file));
    report(
        &bare
            .map(|(name, file)| format!("{file}: `{name}` does not say a role"))
            .collect::<Vec<_>>(),
    );
}

fn glossary() -> String {
    fs::read_to_string(root().join("docs/GLOSSARY.md")).expect("there is a glossary")
}

/// Names of types in backticks, without the modules before them.
fn types_named_in(text: &str) -> BTreeSet<String> {
    let named = text.split('`').skip(1).step_by(2);
    let names = named.flat_map(|it| it.split(|it: char| !it.is_alphanumeric() && it != '_'));
    let is_type =
        |name: &&str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    names.filter(is_type).map(str::to_owned).collect()
}

#[test]
fn types_named_in_the_glossary_exist() {
    let known: BTreeSet<String> = types().into_iter().map(|(name, _)| name).collect();
    let unknown = types_named_in(&glossary()).into_iter().filter(|name| !known.contains(name));
    report(&unknown.map(|name| format!("docs/GLOSSARY.md: no type `{name}`")).collect::<Vec<_>>());
}

#[test]
fn role_types_are_in_the_glossary() {
    let named = types_named_in(&glossary());
    let has_role = |name: &str| ROLES.iter().any(|role| name.ends_with(role));
    let is_in_room = |file: &str| ROOMS.iter().any(|room| file.starts_with(room));
    let is_missing = |(name, file): &(String, String)| {
        has_role(name) && is_in_room(file) && !file.ends_with("tests.rs") && !named.contains(name)
    };
    let missing = types().into_iter().filter(is_missing);
    report(
        &missing
            .map(|(name, file)| format!("{file}: `{name}` is not in the glossary"))
            .collect::<Vec<_>>(),
    );
}

/// Invariants in a text: `I-` and a number.
fn invariants(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("I-") {
        let is_word = text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        let digits: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
        found.extend(digits.parse::<u32>().ok().filter(|_| is_word));
    }
    found
}

/// Invariants that documents define: `**I-7 (name)**`.
fn defined() -> BTreeSet<u32> {
    let documents = files("md");
    let definitions = documents.values().flat_map(|text| text.split("**I-").skip(1));
    let numbers = definitions.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
    numbers.filter_map(|digits: String| digits.parse().ok()).collect()
}

#[test]
fn every_invariant_is_cited_by_code_or_a_test() {
    let cited: BTreeSet<u32> = files("rs").values().flat_map(|text| invariants(text)).collect();
    let uncited = defined().into_iter().filter(|number| !cited.contains(number));
    report(&uncited.map(|number| format!("I-{number} is cited nowhere")).collect::<Vec<_>>());
}

#[test]
fn every_cited_invariant_is_defined() {
    let (defined, mut found) = (defined(), Vec::new());
    for (name, text) in files("rs").into_iter().chain(files("md")) {
        let unknown = invariants(&text).into_iter().filter(|number| !defined.contains(number));
        found.extend(unknown.map(|number| format!("{name}: I-{number} is defined nowhere")));
    }
    report(&found);
}

#[test]
fn links_in_documents_point_to_existing_files() {
    let mut found = Vec::new();
    for (name, text) in files("md") {
        let folder = root().join(&name).parent().expect("a file is in a folder").to_owned();
        for rest in text.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            let path = target.split('#').next().unwrap_or_default();
            let is_outside = path.is_empty() || path.contains("://") || path.contains(' ');
            if !is_outside && !folder.join(path).exists() {
                found.push(format!("{name}: no file `{path}`"));
            }
        }
    }
    report(&found);
}

#[test]
fn files_named_in_documents_exist() {
    let extensions = ["rs", "md", "toml", "xml", "idl"];
    let known: Vec<String> = extensions.iter().flat_map(|it| files(it).into_keys()).collect();
    let mut found = Vec::new();
    let is_decision = |name: &str| name.starts_with("docs/decisions/");
    for (name, text) in files("md").into_iter().filter(|(name, _)| !is_decision(name)) {
        for path in text.split('`').skip(1).step_by(2) {
            let is_file = extensions.iter().any(|it| path.ends_with(&format!(".{it}")))
                && path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
                && !path.starts_with('.')
                && !path.starts_with('/');
            let ends = |file: &String| file == path || file.ends_with(&format!("/{path}"));
            if is_file && !OF_THE_READER.contains(&path) && !known.iter().any(ends) {
                found.push(format!("{name}: no file `{path}`"));
            }
        }
    }
    report(&found);
}

#[test]
fn decisions_are_numbered_without_a_gap() {
    let names = files("md").into_keys();
    let names = names.filter_map(|name| Some(name.strip_prefix("docs/decisions/")?.to_owned()));
    let numbers: Vec<u32> = names.filter_map(|name| name.get(..4)?.parse().ok()).collect();
    let expected: Vec<u32> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
}

/// Code without comments, and without the modules of tests.
fn product_code(text: &str) -> String {
    let is_test = |line: &str| {
        let line = line.trim_start();
        line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
    };
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let next_is_module = lines.peek().is_some_and(|next| {
            next.trim_start().starts_with("mod ") || next.trim_start().starts_with("#[cfg")
        });
        if is_test(line) && next_is_module {
            break;
        }
        code.push_str(line.split("//").next().unwrap_or(line));
        code.push('\n');
    }
    code
}

/// Byte offset of the bracket that closes the one at the beginning of a text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut before) = (0, ' ');
    for (offset, it) in text.char_indices() {
        match it {
            '(' | '[' | '{' | '<' => depth += 1,
            // The head of an arrow closes nothing.
            '>' if before == '-' || before == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(offset);
        }
        before = it;
    }
    None
}

/// Parts of a text between separators that are in no brackets.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(it) = text[at..].chars().next() {
        let is_double = separator == ':' && text[at..].starts_with("::");
        match it {
            '(' | '[' | '{' | '<' => at += closing(&text[at..]).unwrap_or(0) + 1,
            _ if is_double => at += 2,
            _ => {
                if it == separator {
                    parts.push(&text[start..at]);
                    start = at + 1;
                }
                at += it.len_utf8();
            }
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Whether a type is a tuple, or a reference, a slice, a list or an option of tuples.
fn is_of_tuples(of: &str) -> bool {
    let of = of.trim();
    if let Some(rest) = of.strip_prefix('&') {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('\'').map_or(rest, |rest| {
            rest.trim_start_matches(|it: char| it.is_alphanumeric() || it == '_').trim_start()
        });
        return is_of_tuples(rest.strip_prefix("mut ").unwrap_or(rest));
    }
    let inner = ["Option<", "Vec<", "["].iter().find_map(|opening| of.strip_prefix(opening));
    if let Some(inner) = inner {
        return is_of_tuples(inner);
    }
    let Some(end) = of.starts_with('(').then(|| closing(of)).flatten() else { return false };
    split_outside(&of[1..end], ',').len() > 1
}

/// Parameters of tuple type, each after the name of its function.
fn tuple_parameters(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = !code[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_');
        let head = code[at + 3..].trim_start();
        let named = head.trim_start_matches(|it: char| it.is_alphanumeric() || it == '_');
        let name = &head[..head.len() - named.len()];
        let generic = named.starts_with('<').then(|| closing(named)).flatten();
        let list = &named[generic.map_or(0, |end| end + 1)..];
        if !is_word || name.is_empty() || !list.starts_with('(') {
            continue;
        }
        let Some(end) = closing(list) else { continue };
        for parameter in split_outside(&list[1..end], ',') {
            let is_tuple = split_outside(parameter, ':').get(1).is_some_and(|of| is_of_tuples(of));
            found.extend(is_tuple.then(|| {
                let words: Vec<&str> = parameter.split_whitespace().collect();
                format!("`{name}`: `{}`", words.join(" "))
            }));
        }
    }
    found
}

/// A parameter of tuple type does not say what its fields are.
#[test]
fn parameters_have_no_tuple_types() {
    let is_checked = |name: &str| !(name.contains("tests/") || name.ends_with("tests.rs"));
    let mut found = Vec::new();
    for (name, text) in files("rs").iter().filter(|(name, _)| is_checked(name)) {
        let of_file = tuple_parameters(&product_code(text));
        found.extend(of_file.iter().map(|parameter| format!("{name}: {parameter}")));
    }
    report(&found);
}

#[test]
fn tuple_parameters_are_found() {
    let code = "fn a<T: Into<(u8, u8)>>(x: &mut [(T, u8)], y: u8) -> (u8, u8) {}
        fn b(&self, f: impl Fn(u8, u8), pairs: impl Iterator<Item = (u8, u8)>, (): ()) {}
        fn c(&self, (x, y): (crate::A, Vec<u8>), z: Option<(u8, u8)>) {}
        fn d(&'a self, of: &'a (u8, u8), call: fn(u8, u8) -> u8) {}";
    let names: Vec<String> = tuple_parameters(code);
    assert_eq!(
        names,
        [
            "`a`: `x: &mut [(T, u8)]`",
            "`c`: `(x, y): (crate::A, Vec<u8>)`",
            "`c`: `z: Option<(u8, u8)>`",
            "`d`: `of: &'a (u8, u8)`",
        ]
    );
}
