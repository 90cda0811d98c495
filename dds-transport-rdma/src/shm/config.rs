//! Settings with which a node joins. Every setting but the domain has a default.

use std::env;
use std::ffi::{OsString, c_ulong};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use derecho_core::ids::NodeId;
use rustix::rand::{GetRandomFlags, getrandom};

use super::error::JoinError;
use super::wire;

/// Maximum length of a domain name.
pub(crate) const DOMAIN_LIMIT: usize = 64;
/// File in which the kernel says whether shared memory may have huge pages.
pub(crate) const SHARED_HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
/// Default size of an arena. Only address space is reserved; memory is allocated as regions
/// are opened.
const ARENA_BYTES: usize = 64 << 20;
/// Minimum size of an arena: a page for the header and some for regions.
const LEAST_ARENA_BYTES: usize = 64 << 10;

/// Configuration of a joining node. Start from [`ShmConfig::new`] and change individual settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShmConfig {
    /// Folder in which nodes meet. Default: `/tmp/squall-<uid>`, or `/tmp/squall-g<gid>` with
    /// a group.
    pub runtime_dir: Option<PathBuf>,
    /// Name of the domain or table whose nodes meet. Letters, digits, `-`, `_` and `.`.
    pub domain: String,
    /// UNIX group, by name or number, whose members may join. Default: only the user may join.
    pub group: Option<String>,
    /// Id of this node. Random by default; never use an id twice.
    pub node: NodeId,
    /// Size of an arena in bytes; a larger region gets a larger arena of its own.
    pub arena_bytes: usize,
    /// Maximum memory that this node's regions may take, in bytes.
    pub memory_limit: Option<u64>,
    /// Whether the memory of regions is locked and populated at once, so that no access to it waits
    /// for a page. Peers' memory is populated as well, as soon as it is announced.
    pub lock_memory: bool,
    /// Whether the memory of regions uses huge pages where the kernel has some.
    pub huge_pages: bool,
    /// Longest time that [`join`](super::ShmLink::join) waits for the peers that it finds.
    pub answer_limit: Duration,
    /// Longest wait for the domain's lock.
    pub lock_limit: Duration,
    /// Time that a connection which ended without a goodbye waits for the kernel to report the
    /// peer's death. After this time the peer counts as lost without certainty.
    pub evidence_limit: Duration,
    /// Time within which a newly connected, unknown node must identify itself.
    pub hello_limit: Duration,
    /// Time for which a peer may leave a full queue unread before it is disconnected.
    pub silence_limit: Duration,
    /// Whether to issue a barrier before each sleep where the system can, so that peers need no
    /// fence for this node. For tests of systems that cannot.
    #[doc(hidden)]
    pub sleep_behind_barriers: bool,
    /// Whether to register for the barriers of other processes where the system can, and omit the
    /// fences that they replace. For tests of systems that cannot.
    #[doc(hidden)]
    pub agree_to_barriers: bool,
    /// Protocol versions to speak, for tests of their negotiation.
    #[doc(hidden)]
    pub versions: Vec<u16>,
    memory_limit_text: Option<String>,
}

impl ShmConfig {
    /// Returns the defaults for `domain`, with the values of `SQUALL_RUNTIME_DIR`, `SQUALL_GROUP`
    /// and `SQUALL_MEMORY_LIMIT`. If the program has rights that its caller lacks (setuid, setgid,
    /// file capabilities), the environment belongs to the caller and is ignored. The join reports a
    /// value that cannot be parsed.
    pub fn new(domain: impl Into<String>) -> ShmConfig {
        let setting = |name| environment(name)?.into_string().ok();
        ShmConfig {
            runtime_dir: environment("SQUALL_RUNTIME_DIR").map(PathBuf::from),
            domain: domain.into(),
            group: setting("SQUALL_GROUP"),
            node: random_node(),
            arena_bytes: ARENA_BYTES,
            memory_limit: None,
            lock_memory: false,
            huge_pages: false,
            answer_limit: Duration::from_secs(1),
            lock_limit: Duration::from_secs(5),
            evidence_limit: Duration::from_secs(1),
            hello_limit: Duration::from_secs(5),
            silence_limit: Duration::from_secs(10),
            sleep_behind_barriers: true,
            agree_to_barriers: true,
            versions: wire::VERSIONS.to_vec(),
            memory_limit_text: setting("SQUALL_MEMORY_LIMIT"),
        }
    }

    /// Checks everything that can be checked before anything is touched.
    pub(crate) fn check(mut self) -> Result<CheckedConfig, JoinError> {
        check_domain(&self.domain)?;
        if let (None, Some(text)) = (self.memory_limit, &self.memory_limit_text) {
            self.memory_limit = Some(parse_bytes(text).ok_or_else(|| JoinError::BadSetting {
                name: "SQUALL_MEMORY_LIMIT",
                value: text.clone(),
                expected: "a number of bytes, optionally followed by K, M or G",
            })?);
        }
        if self.versions.is_empty() || self.versions.len() > wire::VERSIONS_LIMIT {
            return Err(JoinError::BadSetting {
                name: "versions",
                value: format!("{:?}", self.versions),
                expected: "between one and sixteen protocol versions",
            });
        }
        if self.huge_pages {
            check_huge_pages()?;
        }
        let gid = self.group.as_deref().map(find_group).transpose()?;
        self.arena_bytes = self.arena_bytes.max(LEAST_ARENA_BYTES);
        let uid = rustix::process::geteuid().as_raw();
        let runtime_dir = self.folder_of(uid, gid);
        Ok(CheckedConfig { config: self, runtime_dir, uid, gid })
    }

    /// Returns the folder in which nodes meet. Fails if there is no such group.
    pub fn runtime_folder(&self) -> Result<PathBuf, JoinError> {
        let gid = self.group.as_deref().map(find_group).transpose()?;
        Ok(self.folder_of(rustix::process::geteuid().as_raw(), gid))
    }

    fn folder_of(&self, uid: u32, gid: Option<u32>) -> PathBuf {
        self.runtime_dir.clone().unwrap_or_else(|| match gid {
            Some(gid) => PathBuf::from(format!("/tmp/squall-g{gid}")),
            None => PathBuf::from(format!("/tmp/squall-{uid}")),
        })
    }
}

/// Configuration with every setting checked and resolved.
pub(crate) struct CheckedConfig {
    pub(crate) config: ShmConfig,
    pub(crate) runtime_dir: PathBuf,
    pub(crate) uid: u32,
    pub(crate) gid: Option<u32>,
}

/// Returns the value of an environment variable, unless it is empty. Returns `None` if the program
/// has rights that its caller lacks (setuid, setgid, file capabilities), because the environment
/// then belongs to the caller.
pub fn environment(name: &str) -> Option<OsString> {
    setting(is_privileged(), name)
}

/// Returns the value of an environment variable, unless the program is privileged or the value
/// is empty.
fn setting(is_privileged: bool, name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !is_privileged && !value.is_empty())
}

/// Whether this program has rights that its caller lacks, as the kernel determined at its start.
fn is_privileged() -> bool {
    const AT_SECURE: c_ulong = 23;
    unsafe extern "C" {
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    // SAFETY: the function only reads what the kernel gave the program at its start.
    unsafe { getauxval(AT_SECURE) != 0 }
}

fn random_node() -> NodeId {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        // Without flags the kernel's generator fails only when a signal arrives first.
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).unwrap_or(0);
    }
    NodeId(u128::from_ne_bytes(bytes))
}

fn check_domain(domain: &str) -> Result<(), JoinError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let why = if domain.is_empty() {
        "is empty"
    } else if domain.len() > DOMAIN_LIMIT {
        "is too long"
    } else if domain.starts_with('.') {
        "starts with a dot"
    } else if !domain.chars().all(allowed) {
        "has a character that is not allowed"
    } else {
        return Ok(());
    };
    Err(JoinError::BadDomain { domain: domain.to_owned(), why })
}

/// Whether the kernel gives huge pages to shared memory that asks for them.
fn check_huge_pages() -> Result<(), JoinError> {
    let content = fs::read_to_string(SHARED_HUGE_PAGES);
    let is = content.as_deref().unwrap_or_default().split(['[', ']']).nth(1).unwrap_or("unknown");
    match is {
        "advise" | "always" | "within_size" | "force" => Ok(()),
        is => Err(JoinError::NoHugePages(is.to_owned())),
    }
}

/// Returns a group's number, from the number itself or from the host's list of groups.
fn find_group(group: &str) -> Result<u32, JoinError> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let gid_of = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    groups.lines().find_map(gid_of).ok_or_else(|| JoinError::NoSuchGroup(group.to_owned()))
}

/// Parses a size such as `512M`.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_folder_is_named_for_user_or_group_or_as_given() {
        let mut config = ShmConfig::new("a");
        (config.runtime_dir, config.group) = (None, None);
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(config.runtime_folder(), Ok(PathBuf::from(format!("/tmp/squall-{uid}"))));
        config.group = Some("4711".to_owned());
        assert_eq!(config.runtime_folder(), Ok(PathBuf::from("/tmp/squall-g4711")));
        config.runtime_dir = Some(PathBuf::from("/run/squall"));
        assert_eq!(config.runtime_folder(), Ok(PathBuf::from("/run/squall")));
    }

    #[test]
    fn size_parser_reads_unit_suffixes_and_rejects_other_text() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes(" 2 M "), Some(2 << 20));
        assert_eq!(parse_bytes("1G"), Some(1 << 30));
        for nonsense in ["", "M", "-1", "1T", "99999999999G", "1.5G"] {
            assert_eq!(parse_bytes(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn domain_check_accepts_only_safe_folder_names() {
        for good in ["domain-0", "a", "table_1.rows", &"x".repeat(DOMAIN_LIMIT)] {
            assert_eq!(check_domain(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", &"x".repeat(DOMAIN_LIMIT + 1)] {
            assert!(matches!(check_domain(bad), Err(JoinError::BadDomain { .. })), "{bad}");
        }
    }

    #[test]
    fn groups_are_found_by_name_and_number() {
        assert_eq!(find_group("4711"), Ok(4711));
        assert_eq!(find_group("root"), Ok(0));
        let missing = find_group("no-such-group").unwrap_err();
        assert!(missing.to_string().contains("no-such-group"));
    }

    #[test]
    fn privileged_program_ignores_environment_settings() {
        assert!(setting(false, "PATH").is_some());
        assert_eq!(setting(true, "PATH"), None);
        assert!(!is_privileged());
    }

    #[test]
    fn node_ids_differ() {
        assert_ne!(random_node(), random_node());
    }
}
