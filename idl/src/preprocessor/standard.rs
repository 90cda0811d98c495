//! Files that belong to the standard and that every compiler brings along.
//!
//! Owns the types of module `DDS` for files that include them without having them.

/// Names of files with the standard's own types; all of them have the same contents.
const NAMES: [&str; 4] =
    ["dds_dcps.idl", "dds_rtf2_dcps.idl", "dds_primitives.idl", "dds_builtin_types.idl"];

/// Identity of these files, which are on no disk.
pub(super) const STANDARD: &str = "<standard>";

/// Types and entities of module `DDS`. The entities are known by name, so that interfaces can
/// derive from them, and an error can say that no sample carries them.
const TEXT: &str = include_str!("dds_dcps.idl");

/// Returns the text of a file of the standard, if the name, without directories, is one.
pub(super) fn standard_file(name: &str) -> Option<&'static str> {
    let name = name.rsplit(['/', '\\']).next()?;
    NAMES.contains(&name).then_some(TEXT)
}
