//! Conversion of IDL names to Rust names.
//!
//! Owns the conversion of case and the escape of Rust's keywords. Two IDL names may become one Rust
//! name; the generator tells them apart.

/// Returns the name of a struct, enum, typedef or enumerator: `KEEP_LAST` becomes `KeepLast`.
pub(crate) fn type_name(idl: &str) -> String {
    let mut name = String::new();
    for word in words(idl) {
        // Adjacent numbers keep their separator.
        let border = name.ends_with(|c: char| c.is_ascii_digit())
            && word.starts_with(|c: char| c.is_ascii_digit());
        if border {
            name.push('_');
        }
        name.push_str(&word[..1].to_ascii_uppercase());
        name.push_str(&word[1..].to_ascii_lowercase());
    }
    escape(name)
}

/// Returns the name of a module or member: `fooBar` becomes `foo_bar`.
pub(crate) fn value_name(idl: &str) -> String {
    escape(words(idl).join("_").to_ascii_lowercase())
}

/// Returns the name of a constant or of a bit: `maxCount` becomes `MAX_COUNT`.
pub(crate) fn constant_name(idl: &str) -> String {
    words(idl).join("_").to_ascii_uppercase()
}

/// Splits a name into words: at `_`, between a lower-case and an upper-case letter, and before the
/// last of several upper-case letters (`HTTPServer` is `HTTP` and `Server`).
fn words(idl: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in idl.split('_').filter(|part| !part.is_empty()) {
        let bytes = part.as_bytes();
        let mut start = 0;
        for index in 1..bytes.len() {
            let follows_small = !bytes[index - 1].is_ascii_uppercase();
            let before_small = bytes.get(index + 1).is_some_and(u8::is_ascii_lowercase);
            if bytes[index].is_ascii_uppercase() && (follows_small || before_small) {
                words.push(&part[start..index]);
                start = index;
            }
        }
        words.push(&part[start..]);
    }
    words
}

fn escape(name: String) -> String {
    match name.as_str() {
        // These cannot be raw identifiers.
        "self" | "Self" | "super" | "crate" => name + "_",
        word if RUST_KEYWORDS.contains(&word) => format!("r#{word}"),
        _ => name,
    }
}

const RUST_KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_become_camel_case() {
        for (idl, rust) in [
            ("Position", "Position"),
            ("position_3d", "Position3d"),
            ("KEEP_LAST", "KeepLast"),
            ("GPSFix", "GpsFix"),
            ("v1_2", "V1_2"),
            ("Self", "Self_"),
            ("a__b_", "AB"),
        ] {
            assert_eq!(type_name(idl), rust);
        }
    }

    #[test]
    fn member_names_become_snake_case() {
        for (idl, rust) in [
            ("latitude", "latitude"),
            ("fooBar", "foo_bar"),
            ("GPSFix", "gps_fix"),
            ("x2", "x2"),
            ("type", "r#type"),
            ("self", "self_"),
            ("IDs", "i_ds"),
        ] {
            assert_eq!(value_name(idl), rust);
        }
    }
}
