//! Words that cannot be identifiers.

/// Whether a name must not be spelt like this without a leading `_`.
///
/// A name that differs from a keyword only in case is accepted (`String`, `Int8`, as ROS 2 has
/// them), and so is `map`, which is a type only in front of `<`.
pub(crate) fn is_reserved(word: &str) -> bool {
    word != "map" && (matches!(word, "true" | "false") || keyword(word) == Some(word))
}

/// Whether a word is a keyword of IDL in some case, so that a name that is spelt like it needs a
/// leading `_`.
pub fn is_keyword(word: &str) -> bool {
    keyword(word).is_some()
}

/// Returns the keyword equal to `word` apart from case.
///
/// Words of the building blocks that no DDS file needs (`component`, `port`, `home`, `local` and so
/// on) are keywords only at the beginning of a definition, as the standard allows for profiles
/// without those blocks. Such words are likely names of members.
pub(crate) fn keyword(word: &str) -> Option<&'static str> {
    // No keyword is longer.
    if word.len() > 9 {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    KEYWORDS
        .binary_search_by(|probe| probe.0.cmp(lower.as_str()))
        .ok()
        .map(|index| KEYWORDS[index].1)
}

/// Each keyword in lower case, and as it is written.
#[rustfmt::skip]
const KEYWORDS: &[(&str, &str)] = &[
    ("any", "any"), ("bitfield", "bitfield"), ("bitmask", "bitmask"), ("bitset", "bitset"),
    ("boolean", "boolean"), ("case", "case"), ("char", "char"), ("const", "const"),
    ("default", "default"), ("double", "double"), ("enum", "enum"), ("exception", "exception"),
    ("false", "FALSE"), ("fixed", "fixed"), ("float", "float"), ("int16", "int16"),
    ("int32", "int32"), ("int64", "int64"), ("int8", "int8"), ("interface", "interface"),
    ("long", "long"), ("map", "map"), ("module", "module"), ("native", "native"),
    ("octet", "octet"), ("sequence", "sequence"), ("short", "short"), ("string", "string"),
    ("struct", "struct"), ("switch", "switch"), ("true", "TRUE"), ("typedef", "typedef"),
    ("uint16", "uint16"), ("uint32", "uint32"), ("uint64", "uint64"), ("uint8", "uint8"),
    ("union", "union"), ("unsigned", "unsigned"), ("valuetype", "valuetype"), ("void", "void"),
    ("wchar", "wchar"), ("wstring", "wstring"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyword_table_is_sorted_and_lookup_ignores_case() {
        assert!(KEYWORDS.is_sorted());
        assert!(KEYWORDS.iter().all(|(lower, word)| *lower == word.to_ascii_lowercase()));
        assert_eq!(keyword("STRUCT"), Some("struct"));
        assert_eq!(keyword("structure"), None);
    }

    #[test]
    fn names_in_another_case_than_keywords_and_map_are_free() {
        assert!(["String", "Int8", "Bool", "Struct", "map", "Map"].iter().all(|w| !is_reserved(w)));
        assert!(
            ["string", "int8", "TRUE", "true", "FALSE", "false"].iter().all(|w| is_reserved(w))
        );
    }
}
